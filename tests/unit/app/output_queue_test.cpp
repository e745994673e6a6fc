#include "app/output_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    if (pipe(fds) != 0) return;
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
  std::string take(std::size_t bytes) const {
    std::string out(bytes, '\0');
    std::size_t at = 0;
    for (ssize_t n = 1; n > 0 && at < bytes; at += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
      n = ::read(read.get(), out.data() + at, bytes - at);
    out.resize(at);
    return out;
  }
  UniqueFd read, write;
};

TEST(OutputQueue, writes_line_after_line) {
  Pipe pipe;
  OutputQueue queue(pipe.write.get());
  queue.write("one\n");
  queue.write("two\n");
  EXPECT_TRUE(queue.flush());
  EXPECT_EQ(pipe.take(8), "one\ntwo\n");
  EXPECT_EQ(queue.take_dropped(), 0u);
}

TEST(OutputQueue, waits_for_nobody_who_does_not_read_and_counts_what_it_drops) {
  Pipe pipe;
  OutputQueue queue(pipe.write.get());
  const std::string line = std::string(1023, 'x') + '\n';
  const std::size_t lines = OutputQueue::kMaxBytes / line.size();
  for (std::size_t i = 0; i < lines + 100; ++i) queue.write(line);  // would never return
  EXPECT_FALSE(queue.flush());
  EXPECT_EQ(queue.take_dropped(), 0u) << "there is no room yet to tell of it";
  // What was taken into the pipe makes room again, so as many as that may have come in.
  std::size_t taken = pipe.take(OutputQueue::kMaxBytes).size();
  EXPECT_TRUE(taken == OutputQueue::kMaxBytes);
  (void)queue.flush();  // until the thread has seen it
  std::uint64_t dropped = queue.take_dropped();
  EXPECT_GT(dropped, 0u);
  EXPECT_LE(dropped, 100u);
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  for (bool written = false; !written;) {
    while (!pipe.take(65536).empty()) {
    }
    written = queue.flush();
  }
  while (!pipe.take(65536).empty()) {
  }
  EXPECT_EQ(queue.take_dropped(), 0u) << "once";
  queue.write("again\n");
  EXPECT_TRUE(queue.flush());
  EXPECT_EQ(pipe.take(6), "again\n");
}

TEST(OutputQueue, keeps_room_for_what_must_not_be_missed) {
  Pipe pipe;
  OutputQueue queue(pipe.write.get());
  const std::string line = std::string(1023, 'x') + '\n';
  for (std::size_t i = 0; i < 2 * OutputQueue::kMaxBytes / line.size(); ++i) queue.write(line);
  for (std::size_t i = 0; i < 2 * OutputQueue::kMaxAlerts / line.size(); ++i)
    queue.write(std::string(1023, 'a') + '\n', OutputQueue::kMaxAlerts);
  for (int i = 0; i < 1000; ++i) queue.write(std::string(1023, 'k') + '\n', OutputQueue::kMaxEvidence);
  std::string all;
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  for (bool written = false; !written;) {
    written = queue.flush();
    for (std::string part = pipe.take(65536); !part.empty(); part = pipe.take(65536)) all += part;
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), 'k'), 1000 * 1023);
}

TEST(OutputQueue, fails_for_good_when_its_reader_is_gone) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  OutputQueue queue(pipe.write.get());
  pipe.read.reset();
  queue.write("one\n");
  EXPECT_FALSE(queue.flush());
  EXPECT_TRUE(queue.failed());
  queue.write("two\n");
  EXPECT_FALSE(queue.flush());
}

TEST(OutputQueue, writes_to_a_pipe_that_does_not_wait) {
  Pipe pipe;
  fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  OutputQueue queue(pipe.write.get());
  const std::string line(200'000, 'x');  // more than a pipe holds
  queue.write(line);
  EXPECT_EQ(pipe.take(line.size()), line);
  EXPECT_TRUE(queue.flush());
}

}  // namespace
}  // namespace oomcast
