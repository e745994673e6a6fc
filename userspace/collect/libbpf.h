// Owners of libbpf's handles, for the sources of kernel programs alone.
#pragma once

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace oomcast {

struct BtfDeleter {
  void operator()(btf* b) const { btf__free(b); }
};
struct LinkDeleter {
  void operator()(bpf_link* l) const { bpf_link__destroy(l); }
};
struct RingDeleter {
  void operator()(ring_buffer* r) const { ring_buffer__free(r); }
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;
using Ring = std::unique_ptr<ring_buffer, RingDeleter>;

/// What a section's name says; tracepoints, on all CPUs, by their ids of tracefs (collect/tracepoint_ids.h)
/// instead of libbpf's own look there. Null, with errno: refused, or there is no id.
inline bpf_link* attach(bpf_program* program, const std::map<std::string, std::uint64_t>& tracepoint_ids) {
  constexpr std::string_view kTracepoint = "tracepoint/";
  std::string_view section = bpf_program__section_name(program);
  if (!section.starts_with(kTracepoint)) return bpf_program__attach(program);
  auto id = tracepoint_ids.find(std::string(section.substr(kTracepoint.size())));
  if (id == tracepoint_ids.end()) return errno = ENOENT, nullptr;
  perf_event_attr event{};
  event.type = PERF_TYPE_TRACEPOINT;
  event.size = sizeof(event);
  event.config = id->second;
  // The kernel wants one CPU for the event; its program runs on each.
  UniqueFd fd(static_cast<int>(syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
  bpf_link* link = fd ? bpf_program__attach_perf_event(program, fd.get()) : nullptr;
  if (link) fd.release();  // the link's
  return link;
}

/// Runs an iterator's program for all there is; what it writes goes to `take`. false: it failed.
template <typename Take>
bool run_iterator(int link, Take&& take) {
  UniqueFd iterator(bpf_iter_create(link));
  if (!iterator) return false;
  std::array<std::byte, 4096> some;
  ssize_t got = 0;
  while ((got = read(iterator.get(), some.data(), some.size())) > 0 || (got < 0 && errno == EAGAIN))
    if (got > 0) take(std::span<const std::byte>(some).first(static_cast<std::size_t>(got)));
  return got == 0;
}

/// Times the kernel skipped one of the programs because it interrupted itself, since load.
inline std::uint64_t missed_runs(const bpf_object* object) {
  std::uint64_t missed = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    if (int fd = bpf_program__fd(program); fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
      missed += info.recursion_misses;
  }
  return missed;
}

// libbpf prints what it finds; only the last failure is of use, and only when something failed.
class LibbpfLog {
 public:
  LibbpfLog() {
    text().clear();
    old_ = libbpf_set_print([](enum libbpf_print_level level, const char* format, va_list args) {
      if (level != LIBBPF_WARN) return 0;
      va_list again;
      va_copy(again, args);
      int n = std::vsnprintf(nullptr, 0, format, again);
      va_end(again);
      if (n <= 0) return n;
      // A verifier's log can have megabytes: what matters is where it begins and how it ends.
      constexpr std::size_t kHead = 4096, kTail = 64 * 1024;
      std::string line(static_cast<std::size_t>(n) + 1, '\0');
      std::vsnprintf(line.data(), line.size(), format, args);
      line.pop_back();
      if (line.size() > kHead + kTail) line.erase(kHead, line.size() - kHead - kTail);
      if (text().size() < 1024 * 1024) text() += line;
      return n;
    });
  }
  ~LibbpfLog() { libbpf_set_print(old_); }
  LibbpfLog(const LibbpfLog&) = delete;
  LibbpfLog& operator=(const LibbpfLog&) = delete;

  /// The program whose load failed, as libbpf names it.
  static std::optional<std::string> failed_program() {
    std::string_view log = text();
    std::size_t at = log.find("prog '");
    if (at == std::string_view::npos) return std::nullopt;
    log.remove_prefix(at + 6);
    return std::string(log.substr(0, log.find('\'')));
  }
  static std::string first_line() { return text().substr(0, text().find('\n')); }
  /// The verifier's last word: the line before its statistics.
  static std::string verdict() {
    std::string_view log = text();
    std::size_t end = log.rfind("\nprocessed ");
    if (end == std::string_view::npos) return first_line();
    std::string_view before = log.substr(0, end);
    return std::string(before.substr(before.rfind('\n') + 1));
  }

  /// Of a load that failed with `err`: what is missing, or what failed and the verifier's word of it.
  static std::string failure(int err) {
    std::string first = first_line(), last = verdict();
    if (first != last) return first + ": " + last + " (" + std::strerror(err) + ")";
    if (err == EPERM || err == EACCES)
      return "the kernel refuses BPF programs: run as root, or with CAP_BPF and CAP_PERFMON (and "
             "CAP_SYS_RESOURCE before 5.11)";
    return first + " (" + std::strerror(err) + ")";
  }

 private:
  static std::string& text() {
    static std::string log;
    return log;
  }
  libbpf_print_fn_t old_;
};

}  // namespace oomcast
