#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "app/commands.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/unix_address.h"
#include "stream/read_json.h"

namespace oomcast {
namespace {

// A daemon tracing the whole machine already provides what is asked for: nothing to load, store or run.
bool may_read_daemon(const Options& o) {
  const SourceOptions usual;
  return !o.direct && o.scope.whole_machine() && !o.alert.any() && !o.store.named && o.sources.root.empty() &&
         o.sources.use_bpf && o.sources.use_kmsg && o.sources.interval == usual.interval &&
         o.sources.gpu_test.files.empty();
}

UniqueFd connect_to_daemon(const std::string& path) {
  auto at = unix_address(path);
  UniqueFd fd(at ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1);
  if (fd && connect(fd.get(), at->get(), at->length) != 0) fd.reset();
  return fd;
}

// Prints the daemon's lines as this command would.
class DaemonReader {
 public:
  DaemonReader(const Options& options, UniqueFd socket)
      : output_(options), clock_(clocks_of_read_facts()), socket_(std::move(socket)) {}

  Result<int> run(StopSignals& stop, MonoTime end) {
    while (!stop.pending() && !output_.failed() && !ended_ && mono_now() < end) {
      auto left = end - mono_now();
      pollfd ready[] = {{socket_.get(), POLLIN, 0}, {stop.fd(), POLLIN, 0}};
      auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Nanos>(left, std::chrono::seconds(60)));
      if (poll(ready, 2, static_cast<int>(ms.count())) > 0 && ready[0].revents && !read_lines()) break;
    }
    bool cut_off = gone_ && !ended_;
    if (!ended_) {
      last_.time = wall_now();
      output_.write(last_, clock_);
    }
    if (damaged_) tell_error(std::to_string(damaged_) + " lines of the daemon's could not be read");
    if (Status written = output_.finish(); !written) return written.error();
    if (cut_off)
      return Error::failed(
          "the daemon's stream broke off: the daemon was killed, or what reads these lines was too slow for it");
    return 0;
  }

 private:
  static MonoTime wall_now() {
    return MonoTime(std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch()));
  }

  // False: end of stream.
  bool read_lines() {
    char part[65536];
    ssize_t n = recv(socket_.get(), part, sizeof(part), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    gone_ = n <= 0 || text_.size() > kMaxJsonLine;
    if (gone_) return false;
    text_.append(part, static_cast<std::size_t>(n));
    std::size_t at = 0;
    for (std::size_t end; (end = text_.find('\n', at)) != std::string::npos; at = end + 1)
      take(std::string_view(text_).substr(at, end - at));
    text_.erase(0, at);
    return true;
  }

  void take(std::string_view line) {
    auto fact = read_fact(line);
    if (!fact) ++damaged_;
    if (!fact || !*fact) return;
    ++last_.records;
    if (auto* lost = std::get_if<LostFact>(&**fact)) last_.lost[lost->reason] += lost->count;
    ended_ = ended_ || std::holds_alternative<EndFact>(**fact);
    output_.write(**fact, clock_);
  }

  Output output_;
  ClockMap clock_;
  UniqueFd socket_;
  std::string text_;  // an incomplete line
  EndFact last_;      // used if the daemon goes on
  bool ended_ = false, gone_ = false;
  std::uint64_t damaged_ = 0;
};

}  // namespace

Result<int> trace(const Options& options) {
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  auto end_of = [&options](MonoTime begin) {
    return options.duration ? begin + *options.duration : MonoTime::max();
  };
  if (UniqueFd daemon = may_read_daemon(options) ? connect_to_daemon(options.daemon.socket) : UniqueFd()) {
    diagnostics(options)("reading the stream of the oomcast daemon; --direct traces by itself");
    return DaemonReader(options, std::move(daemon)).run(*stop, end_of(mono_now()));
  }
  Output output(options);
  auto session = open_session(options, *stop);
  if (!session) return session.error();
  if (!*session) return 0;
  Session& s = **session;
  MonoTime end = end_of(s.now());
  s.start([&](const Fact& fact) { output.write(fact, s.clock()); });
  while (!stop->pending() && !output.failed() && s.now() < end) {
    s.step(end);
    output.tell_losses(s);
  }
  s.finish();
  if (auto written = output.finish(); !written) return written.error();
  return 0;
}

}  // namespace oomcast
