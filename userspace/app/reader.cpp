#include "app/reader.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <utility>

#include "app/memory_limits.h"
#include "app/privileges.h"
#include "base/clock.h"
#include "blame/python.h"
#include "collect/process_memory.h"
#include "collect/procfs.h"

namespace oomcast {
namespace {

// Both ends are the same binary: the layout never crosses a version.
struct Question {
  std::uint64_t serial = 0, start_ticks = 0;
  std::uint32_t tgid = 0;
  Reader::What what{};
};
constexpr std::size_t kMaxPayload = 4096;
struct Reply {
  std::uint64_t serial = 0;
  std::int64_t private_bytes = -1, cost_ns = 0;  // -1: unknown
  std::uint32_t payload_bytes = 0, truncated = 0;
  std::array<std::byte, kMaxPayload> payload{};

  void hold(std::span<const std::byte> bytes) {
    if (bytes.size() > payload.size()) return;
    std::ranges::copy(bytes, payload.begin());
    payload_bytes = static_cast<std::uint32_t>(bytes.size());
  }
};
constexpr Nanos kRestsUnstarted = std::chrono::seconds(1);  // when fork fails

Reply answer(const Question& q, const Roots& roots, const ProcFs& procfs) {
  Reply out;
  out.serial = q.serial;
  Nanos began = clock_now(CLOCK_THREAD_CPUTIME_ID);
  if (q.what == Reader::What::private_memory) {
    if (auto bytes = ProcessMemory(roots, q.tgid).private_memory()) out.private_bytes = bytes->count;
  } else if (q.what == Reader::What::python) {
    ProcessMemory memory(roots, q.tgid);
    auto maps = memory.maps();
    if (auto found = maps ? find_python(memory, *maps).python : std::nullopt)
      out.hold(wire::encode(found->layout, found->objects));
  } else if (q.what == Reader::What::arguments) {
    if (auto cmdline = ProcessMemory(roots, q.tgid).arguments()) {
      std::string text = joined(*cmdline);
      out.hold(std::as_bytes(std::span(text)));
      out.truncated = cmdline->truncated;
    }
  }
  // The pid was reused: discard what was read.
  auto same = procfs.read_task_id(q.tgid);
  if (!same || !*same || (*same)->start_ticks != q.start_ticks) {
    out.private_bytes = -1;
    out.payload_bytes = 0;
  }
  out.cost_ns = (clock_now(CLOCK_THREAD_CPUTIME_ID) - began).count();
  return out;
}

}  // namespace

Reader::Reader(std::string root, ChildLimits limits, std::function<bool(const TaskId&)> near_a_kill,
               HelperProcess::Body body)
    : root_(std::move(root)),
      limits_(std::move(limits)),
      near_a_kill_(std::move(near_a_kill)),
      body_(std::move(body)) {
  limits_.files.reset();
  limits_.data = MemoryLimits::kReader;
  limits_.before_others = true;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) return;
  ours_.reset(fds[0]);
  theirs_.reset(fds[1]);
}

bool Reader::ask(What what, const TaskId& id, MonoTime now) {
  if (!ours_ || refusal_ || now < rests_until_ || waiting_.size() >= kMaxWaiting || near_a_kill_(id))
    return false;
  waiting_.push_back({what, id, now});
  if (!asked_) send_next(now);
  return true;
}

bool Reader::start() {
  if (process_.runs()) return true;
  if (process_.unreaped() >= HelperProcess::kMaxUnreaped) return false;
  std::vector<std::string> words{"--reader"};
  if (!root_.empty()) words.push_back(root_);
  return process_.start(std::move(words), limits_, theirs_.get(), body_).ok();
}

void Reader::send_next(MonoTime now) {
  for (; !waiting_.empty() && near_a_kill_(waiting_.front().id); waiting_.pop_front()) drop(waiting_.front());
  if (waiting_.empty()) return;
  if (!start()) return rest(now + kRestsUnstarted);  // the caller may retry
  Request next = waiting_.front();
  waiting_.pop_front();
  Question q{++serial_, next.id.start_ticks, next.id.tgid, next.what};
  if (send(ours_.get(), &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q)) {
    ++given_up_;
    return;
  }
  asked_ = next;
  asked_at_ = now;
  process_.set_deadline(now + (next.what == What::python ? kPythonPatience : kPatience));
}

void Reader::end() {
  process_.end();
  Question unread;
  while (theirs_ && recv(theirs_.get(), &unread, sizeof(unread), MSG_DONTWAIT) > 0) {
  }
}

std::vector<Reader::Answer> Reader::advance(MonoTime now) {
  std::vector<Answer> out = std::exchange(dropped_, {});
  static Reply r;  // of 4 KiB
  while (ours_ && recv(ours_.get(), &r, sizeof(r), MSG_DONTWAIT) == sizeof(r)) {
    if (!asked_ || r.serial != serial_ || r.payload_bytes > r.payload.size()) continue;
    Answer a{asked_->what, asked_->id};
    a.asked = asked_->asked;
    a.cost = Nanos(std::max<std::int64_t>(0, r.cost_ns));
    a.took = now - asked_at_;
    if (r.private_bytes >= 0) a.private_bytes = Bytes{r.private_bytes};
    auto payload = std::span(r.payload).first(r.payload_bytes);
    if (a.what == What::python) a.python.assign(payload.begin(), payload.end());
    if (a.what == What::arguments && !payload.empty()) {
      a.arguments =
          parse_cmdline({reinterpret_cast<const char*>(payload.data()), payload.size()}, kMaxPayload);
      a.arguments->truncated = r.truncated != 0;
    }
    out.push_back(std::move(a));
    asked_.reset();
    process_.set_deadline(std::nullopt);
  }
  // Its own timer ended it, or it crashed on the input.
  bool late = process_.expire(now);
  auto gone = process_.reap();
  // It must not run without its filter, and a new one would fail in the same way.
  if (gone && (refusal_ = lacking_privilege(gone->status))) {
    rest(now);
    for (Answer& answer : std::exchange(dropped_, {})) out.push_back(std::move(answer));
    return out;
  }
  // Killed by another process: then the process being read is not at fault.
  bool from_outside = gone && !late && WIFSIGNALED(gone->status) && WTERMSIG(gone->status) == SIGKILL;
  if (asked_ && from_outside && !std::exchange(asked_->again, true)) {
    end();
    waiting_.push_front(*std::exchange(asked_, std::nullopt));
  }
  if (asked_ && (gone || late)) {
    end();
    ++given_up_;
    out.push_back({asked_->what, asked_->id, true});
    out.back().took = now - asked_at_;
    asked_.reset();
  }
  if (!asked_) send_next(now);
  return out;
}

void Reader::rest(MonoTime until) {
  rests_until_ = std::max(rests_until_, until);
  for (const Request& request : waiting_) drop(request);
  waiting_.clear();
  if (asked_) drop_asked();
}

void Reader::keep_away() {
  if (asked_ && near_a_kill_(asked_->id)) drop_asked();
}

void Reader::drop_asked() {
  end();
  drop(*std::exchange(asked_, std::nullopt));
}

std::string joined(const ProcCmdline& cmdline) {
  std::string text(cmdline.args.bytes());
  if (cmdline.truncated && !text.empty()) text.pop_back();
  return text.substr(0, kMaxPayload);
}

int serve_reader(const std::string& root) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // exec clears it
  if (auto lacking = keep_reader_privileges()) return *lacking;
  limit_looks(Reader::kLongestLook);
  Roots roots{root};
  ProcFs procfs(roots);
  int flags = fcntl(STDOUT_FILENO, F_GETFL);
  fcntl(STDOUT_FILENO, F_SETFL, flags & ~O_NONBLOCK);
  for (Question q; recv(STDOUT_FILENO, &q, sizeof(q), 0) == sizeof(q);) {
    Reply reply = answer(q, roots, procfs);
    if (send(STDOUT_FILENO, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply)) return 1;
  }
  return 0;
}

}  // namespace oomcast
