#include "app/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/unix_address.h"
#include "fixture_tree.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Manager {
  FixtureTree tree;
  UniqueFd fd;
  Manager() {
    tree.write("run/keep", "");
    std::string path = tree.path("run/notify");
    auto at = unix_address(path);
    fd.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_TRUE(at && bind(fd.get(), at->get(), at->length) == 0) << path;
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  std::string heard() {
    char text[256] = {};
    ssize_t n = recv(fd.get(), text, sizeof(text), 0);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
  }
};

TEST(ServiceManager, is_sent_what_it_wants_to_know_and_is_not_left_to_children) {
  Manager manager;
  ServiceManager service = ServiceManager::from_environment();
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr);
  service.send("READY=1\nSTATUS=following");
  EXPECT_EQ(manager.heard(), "READY=1\nSTATUS=following");
}

TEST(ServiceManager, is_told_of_progress_four_times_as_often_as_its_watchdog_wants_and_no_more) {
  Manager manager;
  setenv("WATCHDOG_USEC", "20000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  ServiceManager service = ServiceManager::from_environment();
  EXPECT_EQ(service.watchdog(), std::optional<Nanos>(20s));
  int times = 0;
  for (MonoTime now(100s); now < MonoTime(140s); now += 100ms) {
    service.progress(now);
    times += manager.heard() == "WATCHDOG=1";
  }
  EXPECT_EQ(times, 8);
}

TEST(ServiceManager, has_no_watchdog_that_is_of_another_process) {
  Manager manager;
  setenv("WATCHDOG_USEC", "20000000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(ServiceManager::from_environment().watchdog());
}

TEST(ServiceManager, is_not_there_without_its_socket_and_nothing_is_sent) {
  unsetenv("NOTIFY_SOCKET");
  ServiceManager service = ServiceManager::from_environment();
  EXPECT_FALSE(service.is_there());
  service.send("READY=1");
  service.progress(MonoTime(1s));
  setenv("NOTIFY_SOCKET", "no/path", 1);
  EXPECT_FALSE(ServiceManager::from_environment().is_there());
}

TEST(ServiceManager, is_reached_by_an_abstract_name) {
  std::string name = "@oomcast-test-" + std::to_string(getpid());
  UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto at = unix_address(name);
  ASSERT_TRUE(at && bind(manager.get(), at->get(), at->length) == 0);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  ServiceManager::from_environment().send("READY=1");
  char text[32] = {};
  EXPECT_EQ(recv(manager.get(), text, sizeof(text), 0), 7);
  EXPECT_STREQ(text, "READY=1");
}

}  // namespace
}  // namespace oomcast
