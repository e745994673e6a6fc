#include "app/blame_reader.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "app/blame_protocol.h"
#include "app/file_message.h"
#include "app/memory_limits.h"
#include "app/page_room.h"
#include "app/privileges.h"
#include "base/clock.h"
#include "collect/bpf_source_additions.h"
#include "collect/cgroupfs.h"
#include "collect/process_memory.h"
#include "wire/fault.h"

namespace oomcast {
namespace {

using namespace blame_protocol;

constexpr std::size_t kPart = 32 << 10, kMaxMessage = 64 << 10;
constexpr std::size_t kMaxReason = 200, kShortRecord = 64;
constexpr int kMaxSocket = 1 << 20;

struct GpuTakenHead {
  GpuObject object;
  std::int64_t bytes = 0;
};

bool is_answered(std::uint32_t what) {
  return what != kFault && what != kGpuTaken;  // frequent records are not acknowledged
}

template <typename Head>
std::string message(const Head& head, std::span<const std::byte> payload = {}) {
  std::string out(reinterpret_cast<const char*>(&head), sizeof(head));
  return out.append(reinterpret_cast<const char*>(payload.data()), payload.size());
}

/// The child process's side.
class Server {
 public:
  Server(const std::string& root, int socket)
      : roots_{root}, procfs_(roots_), fs_(CgroupFs::open(roots_)), socket_(socket) {
    config_.roots = roots_;
    config_.longest_name = longest_name();
    config_.on_python = [this](std::uint32_t pid, const wire::PythonLayout& layout) {
      say({kPython, pid, 0}, wire::encode(layout));
    };
    config_.on_baseline = [this](std::uint32_t pid, Bytes resident) {
      say({kBaseline, pid, resident.count});
    };
    config_.on_read = [this](std::uint32_t pid) {
      if (std::exchange(looks_at_, pid) != pid) say({kLooksAt, pid, 0});
    };
    config_.cgroup_of = [this](std::uint32_t pid) { return cgroup_of(pid); };
    config_.guard_of = [this](std::uint32_t pid) { return room_.guard(pid); };
    units_ = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  }

  int serve() {
    std::vector<std::byte> in(kMaxMessage);
    for (;;) {
      ssize_t n = recv(socket_, in.data(), in.size(), 0);
      if (n < static_cast<ssize_t>(sizeof(Request))) return n == 0 ? 0 : 1;
      Request request;
      std::memcpy(&request, in.data(), sizeof(request));
      answer(request, std::span(in).subspan(sizeof(request), static_cast<std::size_t>(n) - sizeof(request)));
      if (is_answered(request.what)) say({kDone, request.what, 0});
    }
  }

 private:
  void answer(const Request& request, std::span<const std::byte> payload) {
    if (request.what == kLeaveOut) {
      config_.unread.insert(request.pid);
      return;
    }
    if (request.what == kLeaveOutAll) {
      config_.blind = true;
      return;
    }
    if (!blame_) blame_.emplace(config_);
    switch (request.what) {
      case kNote:
        return blame_->note(request.pid);
      case kBegin:
        return blame_->begin();
      case kFault:
        if (auto record = wire::decode_fault(payload, units_))
          std::visit([&](auto& r) { blame_->add(std::move(r)); }, *record);
        else
          say({kUndecodable, 0, 0});
        return;
      case kGpuTaken:
        return add_gpu(payload);
      case kGpuGone:
        return blame_->gpu_gone(request.pid, all_of<GpuObject>(payload));
      case kBeginObjects:
        return blame_->sample_objects(request.pid);
      case kGrowing: {
        auto lengths = blame_->growing_lengths(request.pid, AdditionProbes::kMaxLengths);
        return say({kGrowingLengths, request.pid, 0}, std::as_bytes(std::span(lengths)));
      }
      case kFindAllocator:
        return find_allocator(request.pid);
      case kLiving:
        return blame_->add_living(request.pid, all_of<wire::LivingBlock>(payload));
      case kWatched:
        if (WatchedAllocations watched; payload.size() == sizeof(watched)) {
          std::memcpy(&watched, payload.data(), sizeof(watched));
          blame_->set_watched(watched);
        }
        return;
      case kUnwatched:
        return blame_->set_unwatched(request.pid,
                                     {reinterpret_cast<const char*>(payload.data()), payload.size()});
      case kLook:
        return blame_->look(request.share);
      case kEnd:
        return blame_->end();
      case kEndObjects:
        return blame_->sample_objects_again(request.pid);
      case kFinish:
        return report(blame_->finish(Seconds(request.window), request.share));
      default:
        break;
    }
  }

  template <typename T>
  static std::vector<T> all_of(std::span<const std::byte> payload) {
    std::vector<T> out(payload.size() / sizeof(T));
    std::memcpy(out.data(), payload.data(), out.size() * sizeof(T));
    return out;
  }

  void add_gpu(std::span<const std::byte> payload) {
    GpuTakenHead head;
    if (payload.size() < sizeof(head)) return;
    std::memcpy(&head, payload.data(), sizeof(head));
    if (auto stack = wire::decode_gpu_stack(payload.subspan(sizeof(head)), units_))
      blame_->add_gpu(*stack, head.object, {head.bytes});
    else
      say({kUndecodable, 0, 0});
  }

  void find_allocator(std::uint32_t pid) {
    auto found = blame_->find_allocator(pid);
    if (found) {
      AllocatorPlaces places{found->allocates, found->free, found->others, found->stepped};
      std::string bytes = message(BlameReply{kAllocator, pid, 0}, std::as_bytes(std::span(&places, 1)));
      if (send_with_file(socket_, std::as_bytes(std::span(bytes)), found->file.fd.get()) < 0) _exit(1);
    } else {
      say({kNoAllocator, pid, 0}, std::as_bytes(std::span(found.error().message)));
    }
  }

  void report(const BlameReport& report) {
    write_report(report, [this](std::string_view line) {
      auto all = std::as_bytes(std::span(line));
      for (std::size_t at = 0; at < all.size(); at += kPart)
        say({kReport, 0, 0}, all.subspan(at, std::min(kPart, all.size() - at)));
    });
  }

  CgroupPtr cgroup_of(std::uint32_t pid) {
    if (!fs_) return nullptr;
    auto shown = procfs_.read_cgroup(pid, fs_->mount().hierarchy);
    auto path = shown && *shown ? fs_->mount().from_proc_path((*shown)->path) : std::nullopt;
    auto entry = path ? fs_->lookup(*path) : Result<CgroupEntry>(Error{});
    if (!entry) return nullptr;
    return std::make_shared<CgroupRef>(CgroupRef{entry->id, entry->path, name_cgroup(entry->path)});
  }

  void say(const BlameReply& reply, std::span<const std::byte> payload = {}) {
    std::string bytes = message(reply, payload);
    if (send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) _exit(1);  // the other end is gone
  }

  Roots roots_;
  ProcFs procfs_;
  Result<CgroupFs> fs_;
  PageRoom room_{procfs_, fs_};
  int socket_;
  wire::Units units_;
  Blame::Config config_;
  std::optional<Blame> blame_;
  std::uint32_t looks_at_ = 0;
};

}  // namespace

BlameReader::BlameReader(std::string root, ChildLimits limits, Bytes most, Events events,
                         HelperProcess::Body body)
    : as_{std::move(root), std::move(limits), std::move(body)},
      events_(std::move(events)),
      report_(static_cast<std::size_t>(most.count)) {
  as_.limits.data = most;
}

Status BlameReader::start(const std::vector<std::uint32_t>& unread, bool blind) {
  ours_.reset();
  process_.end();
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return Error::from_errno("making a socket for the process that reads others' memory");
  ours_.reset(fds[0]);
  UniqueFd theirs(fds[1]);
  for (int fd : fds) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kMaxSocket, sizeof(kMaxSocket));
  fcntl(ours_.get(), F_SETFL, O_NONBLOCK);
  queue_.clear();
  with_objects_.clear();
  asked_.clear();
  report_ = ReportReader(static_cast<std::size_t>(as_.limits.data->count));
  queued_bytes_ = unanswered_ = 0;
  looking_ = lost_ = late_ = silent_ = false;
  looked_at_.reset();
  std::vector<std::string> words{"--blame-reader"};
  if (!as_.root.empty()) words.push_back(as_.root);
  if (auto ok = process_.start(std::move(words), as_.limits, theirs.get(), as_.body); !ok) return ok;
  for (std::uint32_t pid : unread) ask(kLeaveOut, pid);
  if (blind) ask(kLeaveOutAll);
  return Ok{};
}

void BlameReader::ask(std::uint32_t what, std::uint32_t pid, double share, double window,
                      std::span<const std::byte> payload) {
  queue_.push_back(message(Request{what, pid, share, window}, payload));
  queued_bytes_ += queue_.back().size();
  ++unanswered_;
}

void BlameReader::note(std::uint32_t pid) {
  ask(kNote, pid);
}
void BlameReader::begin() {
  ask(kBegin);
}
void BlameReader::end() {
  ask(kEnd);
}
void BlameReader::begin_objects(std::uint32_t pid) {
  with_objects_.push_back(pid);
  ask(kBeginObjects, pid);
}
void BlameReader::ask_growing() {
  for (std::uint32_t pid : with_objects_) {
    asked_.emplace(kGrowing, pid);
    ask(kGrowing, pid);
  }
}
void BlameReader::end_objects() {
  for (std::uint32_t pid : std::exchange(with_objects_, {})) ask(kEndObjects, pid);
}
void BlameReader::finish(Seconds window, double watched_share) {
  ask(kFinish, 0, watched_share, window.count());
}

void BlameReader::find_allocator(std::uint32_t pid) {
  asked_.emplace(kFindAllocator, pid);
  ask(kFindAllocator, pid);
}
void BlameReader::set_watched(const WatchedAllocations& watched, std::span<const wire::LivingBlock> living) {
  auto all = std::as_bytes(living);
  constexpr std::size_t part = kPart / sizeof(wire::LivingBlock) * sizeof(wire::LivingBlock);
  for (std::size_t at = 0; at < all.size(); at += part)
    ask(kLiving, watched.tgid, 0, 0, all.subspan(at, std::min(part, all.size() - at)));
  ask(kWatched, watched.tgid, 0, 0, std::as_bytes(std::span(&watched, 1)));
}
void BlameReader::set_unwatched(std::uint32_t pid, const std::string& why) {
  ask(kUnwatched, pid, 0, 0, std::as_bytes(std::span(why)));
}

void BlameReader::look(double watched_share) {
  if (std::exchange(looking_, true)) return;
  ask(kLook, 0, watched_share);
}

void BlameReader::add(std::span<const std::byte> record) {
  // Without the record of its free, a block seems retained: these may use more of the queue than others.
  enqueue(message(Request{kFault}, record), record.size() <= kShortRecord ? 2 * kMaxQueued : kMaxQueued);
}

void BlameReader::add_gpu(std::uint32_t pid, const GpuObject& object, Bytes bytes,
                          std::span<const std::byte> record) {
  std::string payload = message(GpuTakenHead{object, bytes.count}, record);
  enqueue(message(Request{kGpuTaken, pid}, std::as_bytes(std::span(payload))), kMaxQueued);
}

void BlameReader::gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects) {
  constexpr std::size_t most = kPart / sizeof(GpuObject);
  for (std::size_t at = 0; at < objects.size(); at += most)
    ask(kGpuGone, pid, 0, 0, std::as_bytes(objects.subspan(at, std::min(most, objects.size() - at))));
}

void BlameReader::enqueue(std::string message, std::size_t most) {
  if (queued_bytes_ + message.size() > most || message.size() > kMaxMessage) {
    ++full_;
    return;
  }
  queued_bytes_ += message.size();
  queue_.push_back(std::move(message));
}

void BlameReader::advance(MonoTime now) {
  if (lost_ || !ours_) return;
  bool moved = false;
  in_.resize(kMaxMessage);
  for (;;) {
    UniqueFd file;
    ssize_t n = receive_with_file(ours_.get(), in_, file);
    if (n == -1 && errno == EINTR) continue;
    if (n == -1) break;
    if (n == 0) {
      lost_ = true;
      if (auto gone = process_.reap(HelperProcess::kReapWait)) {
        late_ = WIFSIGNALED(gone->status) && WTERMSIG(gone->status) == SIGALRM;
        refusal_ = lacking_privilege(gone->status);
      }
      return;
    }
    moved = true;
    take(std::span(in_).first(static_cast<std::size_t>(n)), std::move(file));
  }
  while (!queue_.empty()) {
    const std::string& next = queue_.front();
    if (send(ours_.get(), next.data(), next.size(), MSG_NOSIGNAL) < 0) {
      lost_ = lost_ || (errno != EAGAIN && errno != EINTR && errno != ENOBUFS);
      break;
    }
    moved = true;
    queued_bytes_ -= next.size();
    queue_.pop_front();
  }
  if (idle())
    process_.set_deadline(std::nullopt);
  else if (moved || !silent_)
    process_.set_deadline(now + kPatience);
  else if (process_.expire(now))
    lost_ = late_ = true;
  silent_ = !idle();
}

void BlameReader::take(std::span<const std::byte> in, UniqueFd file) {
  BlameReply reply;
  if (in.size() < sizeof(reply)) return;
  std::memcpy(&reply, in.data(), sizeof(reply));
  auto payload = in.subspan(sizeof(reply));
  switch (reply.said) {
    case kDone:
      if (unanswered_ > 0) --unanswered_;
      if (reply.pid == kLook) looking_ = false;
      break;
    case kLooksAt:
      looked_at_ = reply.pid;
      break;
    case kPython:
      if (events_.on_python) events_.on_python(reply.pid, payload);
      break;
    case kBaseline:
      if (events_.on_baseline && reply.bytes >= 0) events_.on_baseline(reply.pid, Bytes{reply.bytes});
      break;
    case kAllocator:
    case kNoAllocator:
      take_allocator(reply.said == kAllocator, reply.pid, payload, std::move(file));
      break;
    case kGrowingLengths:
      take_growing(reply.pid, payload);
      break;
    case kReport:
      report_.add({reinterpret_cast<const char*>(payload.data()), payload.size()});
      break;
    case kUndecodable:
      ++undecodable_;
      break;
    default:
      break;
  }
}

void BlameReader::take_growing(std::uint32_t pid, std::span<const std::byte> payload) {
  std::array<std::uint64_t, AdditionProbes::kMaxLengths> lengths{};
  std::size_t count = payload.size() / sizeof(lengths[0]);
  if (asked_.erase({kGrowing, pid}) == 0 || !events_.on_growing || !count || count > lengths.size()) return;
  std::memcpy(lengths.data(), payload.data(), count * sizeof(lengths[0]));
  events_.on_growing(pid, std::span(lengths).first(count));
}

// The reader may be compromised by a file that it parsed, and its answer becomes breakpoints: accept it only
// for processes that were asked about, and once for each.
void BlameReader::take_allocator(bool found, std::uint32_t pid, std::span<const std::byte> payload,
                                 UniqueFd file) {
  if (asked_.erase({kFindAllocator, pid}) == 0 || !events_.on_allocator) return;
  AllocatorPlaces places;
  if (!found) {
    events_.on_allocator(pid, Error::failed({reinterpret_cast<const char*>(payload.data()),
                                             std::min(payload.size(), kMaxReason)}));
  } else if (file && payload.size() == sizeof(places)) {
    std::memcpy(&places, payload.data(), sizeof(places));
    events_.on_allocator(
        pid, Allocator{std::move(file), places.allocates, places.free, places.others, places.stepped});
  }
}

std::map<std::string, std::uint64_t> BlameReader::losses() const {
  std::map<std::string, std::uint64_t> out;
  if (full_) out["reader_full"] = full_;
  if (undecodable_) out["undecodable"] = undecodable_;
  return out;
}

int serve_blame(const std::string& root) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // exec clears it
  if (auto lacking = keep_reader_privileges()) return *lacking;
  limit_looks(BlameReader::kLongestLook);
  return Server(root, STDOUT_FILENO).serve();
}

}  // namespace oomcast
