#include "app/event_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unix_address.h"
#include "fixture_tree.h"
#include "stream/facts_of_each_type.h"
#include "stream/json.h"
#include "stream/read_json.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using test::cgroup;

struct Served {
  FixtureTree tree;
  EventLoop loop;
  ClockMap clock;
  std::vector<std::uint64_t> inodes{1};
  std::string padding;
  std::optional<EventSocket> socket;

  Served() {
    EXPECT_TRUE(loop.open());
    tree.write("run/keep", "");
    auto listening = EventSocket::listen_at(path());
    EXPECT_TRUE(listening) << (listening ? "" : listening.error().message);
    socket.emplace(loop, *std::move(listening),
                   EventSocket::Now{[this] { return inodes; },
                                    [this](std::uint64_t inode) { return std::vector<Fact>{sample(inode)}; }},
                   clock);
    StartFact start;
    start.version = "1.2";
    socket->on(start);
  }
  std::string path() const { return tree.path("run/events.sock"); }
  Sample sample(std::uint64_t inode) const {
    Sample out;
    out.time = MonoTime(1s);
    out.cgroup = cgroup(inode, "/c" + std::to_string(inode) + padding);
    return out;
  }
  UniqueFd connect() { return connect(path()); }
  UniqueFd connect(const std::string& where) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    auto at = unix_address(where);
    EXPECT_TRUE(at && ::connect(fd.get(), at->get(), at->length) == 0) << where;
    turn();
    return fd;
  }
  void turn() { loop.wait_until(mono_now() + 1ms); }
  // What it has got, and the loop between: the types of the lines, and the paths of samples.
  std::string read(const UniqueFd& fd, int rounds = 1) {
    std::string text, out;
    for (int i = 0; i < rounds; ++i, turn()) {
      std::string part(1 << 20, '\0');
      for (ssize_t n; (n = recv(fd.get(), part.data(), part.size(), 0)) > 0;)
        text.append(part, 0, static_cast<std::size_t>(n));
    }
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      auto fact = read_fact(std::string_view(text).substr(at, end - at));
      if (!fact || !*fact) {
        out += "?? ";
        continue;
      }
      auto* sample = std::get_if<Sample>(&**fact);
      out += sample ? sample->cgroup->path.substr(0, 4) : std::string(type_of(**fact));
      out += ' ';
    }
    return out;
  }
};

TEST(EventSocket, gives_a_reader_the_start_totals_and_how_everything_is_and_then_what_follows) {
  Served served;
  served.inodes = {1, 2};
  UniqueFd reader = served.connect();
  EXPECT_EQ(served.read(reader, 2), "start totals /c1 /c2 ");
  served.socket->on(UserKillFact{});
  served.socket->on(TickFact{});
  EXPECT_EQ(served.read(reader), "kill ") << "what is for the forecasts alone is not sent";
}

TEST(EventSocket, counts_what_was_published_before_a_reader_came) {
  Served served;
  OomEvent kill;
  kill.episode.scope = OomScope::memcg;
  kill.episode.victims.resize(2);
  served.socket->on(kill);
  served.socket->on(LostFact{MonoTime(), "events_ring_full", 3});
  UniqueFd reader = served.connect();
  std::string text(1 << 16, '\0');
  ssize_t n = recv(reader.get(), text.data(), text.size(), 0);
  ASSERT_GT(n, 0);
  text.resize(static_cast<std::size_t>(n));
  auto line = text.substr(text.find("{\"type\":\"totals\""));
  auto fact = read_fact(line.substr(0, line.find('\n')));
  ASSERT_TRUE(fact && *fact);
  const auto& totals = std::get<TotalsFact>(**fact);
  EXPECT_EQ(totals.kills.find("memcg")->second, 2u);
  EXPECT_EQ(totals.kills.find("global")->second, 0u) << "known to be none";
  EXPECT_EQ(totals.episodes.find("memcg")->second, 1u);
  EXPECT_EQ(totals.lost.at("events_ring_full"), 3u);
}

TEST(EventSocket, cuts_off_a_reader_that_does_not_read_and_no_other) {
  Served served;
  UniqueFd slow = served.connect(), quick = served.connect();
  served.padding = std::string(1000, 'x');
  std::size_t sent = 0;
  for (int i = 0; i < 2000 && served.socket->readers() == 2; ++i) {
    Fact fact = served.sample(7);
    sent += to_json(fact, served.clock).size();
    served.socket->on(fact);
    served.read(quick);
  }
  EXPECT_EQ(served.socket->readers(), 1u);
  EXPECT_EQ(served.socket->slow(), 1u);
  EXPECT_GT(sent, EventSocket::kMaxWaiting) << "so much may wait";
  served.socket->on(UserKillFact{});
  EXPECT_EQ(served.read(quick), "kill ");
}

TEST(EventSocket, keeps_no_more_than_it_may_of_a_large_state_for_a_reader_that_does_not_read_yet) {
  Served served;
  served.padding = std::string(1000, 'x');
  served.inodes.clear();
  int asked = 0;
  for (std::uint64_t inode = 100; inode < 2100; ++inode) served.inodes.push_back(inode);
  served.socket.emplace(served.loop, *EventSocket::listen_at(served.tree.path("run/other.sock")),
                        EventSocket::Now{[&] { return served.inodes; },
                                         [&](std::uint64_t inode) {
                                           ++asked;
                                           return std::vector<Fact>{served.sample(inode)};
                                         }},
                        served.clock);
  UniqueFd fd = served.connect(served.tree.path("run/other.sock"));
  for (int i = 0; i < 100; ++i) served.turn();
  EXPECT_LT(asked, 1000);
  EXPECT_EQ(served.socket->readers(), 1u) << "what is to come is not what waits";
  std::string read = served.read(fd, 200);
  EXPECT_EQ(asked, 2000);
  EXPECT_EQ(std::count(read.begin(), read.end(), ' '), 2001) << "and the totals";
}

TEST(EventSocket, refuses_who_finds_no_room_and_counts_it) {
  Served served;
  std::vector<UniqueFd> readers;
  for (std::size_t i = 0; i < EventSocket::kMaxReaders + 1; ++i) readers.push_back(served.connect());
  EXPECT_EQ(served.socket->readers(), EventSocket::kMaxReaders);
  EXPECT_EQ(served.socket->refused(), 1u);
  readers.erase(readers.begin());
  served.turn();
  EXPECT_EQ(served.socket->readers(), EventSocket::kMaxReaders - 1);
  UniqueFd next = served.connect();
  EXPECT_EQ(served.socket->readers(), EventSocket::kMaxReaders);
}

TEST(EventSocket, cuts_off_a_reader_that_writes) {
  Served served;
  UniqueFd reader = served.connect();
  ASSERT_EQ(send(reader.get(), "GET / HTTP/1.0", 14, MSG_NOSIGNAL), 14);
  served.turn();
  EXPECT_EQ(served.socket->readers(), 0u);
}

TEST(EventSocket, is_open_to_its_user_and_group_alone_and_gone_with_its_owner) {
  Served served;
  struct stat there {};
  ASSERT_EQ(stat(served.path().c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777, 0660u);
  served.socket.reset();
  EXPECT_NE(stat(served.path().c_str(), &there), 0);
}

TEST(EventSocket, takes_the_place_of_one_that_was_left_and_not_of_one_that_is_served) {
  Served served;
  auto second = EventSocket::listen_at(served.path());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("runs already"), std::string::npos) << second.error().message;
  std::string left = served.tree.path("run/left.sock");
  { auto killed = EventSocket::listen_at(left); }
  struct stat there {};
  ASSERT_EQ(stat(left.c_str(), &there), 0);
  EXPECT_TRUE(EventSocket::listen_at(left));
}

TEST(EventSocket, leaves_what_is_no_socket_where_it_is) {
  FixtureTree tree;
  tree.write("run/events.sock", "precious");
  auto refused = EventSocket::listen_at(tree.path("run/events.sock"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is no socket: name another path"), std::string::npos)
      << refused.error().message;
  std::string text;
  std::getline(std::ifstream(tree.path("run/events.sock")), text);
  EXPECT_EQ(text, "precious");
}

TEST(EventSocket, makes_its_folder_and_says_why_it_could_not) {
  FixtureTree tree;
  EXPECT_TRUE(EventSocket::listen_at(tree.path("run/events.sock")));
  tree.write("file", "");
  auto refused = EventSocket::listen_at(tree.path("file/run/events.sock"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("making ")) << refused.error().message;
}

}  // namespace
}  // namespace oomcast
