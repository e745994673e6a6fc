// The common parts of records, as values. Only for this folder.
#pragma once

#include <wire.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "wire/records.h"

namespace oomcast::wire {

inline std::string bounded_string(const char* text, std::size_t size) {
  return {text, strnlen(text, size)};
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

class Decoder {
 public:
  explicit Decoder(const Units& units) : units_(units) {}

  /// At most 2^60 bytes, which no machine has: what is read through a stale pointer may be any number, and
  /// three of them are added up.
  Bytes pages(std::int64_t n) const {
    std::int64_t most = (std::int64_t{1} << 60) / units_.page_bytes;
    return {std::clamp(n, -most, most) * units_.page_bytes};
  }

  TaskId task_id(std::uint32_t tgid, std::uint64_t start_ns) const {
    return {tgid, start_ns / static_cast<std::uint64_t>(units_.ns_per_tick)};
  }

  Task task(const oc_task& t) const {
    Task out;
    out.id = task_id(t.tgid, t.start_ns);
    out.tid = t.tid;
    if (t.parent_tgid) out.parent = task_id(t.parent_tgid, t.parent_start_ns);
    out.ns_tgid = t.ns_tgid;
    out.cgroup = cgroup(t.cgroup_id);
    out.uid = t.uid;
    out.oom_score_adj = t.oom_score_adj;
    out.exiting = t.flags & OC_TASK_EXITING;
    out.workqueue = t.flags & OC_TASK_WORKQUEUE;
    out.comm = bounded_string(t.comm, sizeof(t.comm));
    return out;
  }

  std::optional<Memory> memory(const oc_memory& m) const {
    if (m.anon_pages == OC_UNKNOWN_BYTES) return std::nullopt;
    return Memory{pages(m.anon_pages),
                  pages(m.file_pages),
                  pages(m.shmem_pages),
                  pages(m.swap_entries),
                  pages(m.total_vm_pages),
                  Bytes{m.pgtables_bytes},
                  m.mm_key};
  }

  Memcg memcg(const oc_memcg& m) const {
    Memcg out;
    out.inode = m.id;
    out.usage = pages(static_cast<std::int64_t>(m.usage_pages));
    out.watermark = pages(static_cast<std::int64_t>(m.watermark_pages));
    if (m.limit_pages < OC_NO_LIMIT_FROM_PAGES) out.limit = pages(static_cast<std::int64_t>(m.limit_pages));
    out.oom_lock = m.oom_lock != 0;
    out.oom_group = m.oom_group != 0;
    return out;
  }

  std::vector<Memcg> chain(std::span<const oc_memcg> levels) const {
    std::vector<Memcg> out;
    for (const oc_memcg& level : levels) out.push_back(memcg(level));
    return out;
  }

  std::optional<Memcg> owner(const oc_memcg& m) const {
    return m.id == OC_NO_CGROUP ? std::nullopt : std::optional(memcg(m));
  }

  static std::optional<std::uint64_t> cgroup(std::uint64_t id) {
    return id == OC_NO_CGROUP ? std::nullopt : std::optional(id);
  }

  static std::optional<Args> args(const char* bytes, std::uint32_t count, bool truncated) {
    if (count == 0 || count > OC_ARGS_LEN) return std::nullopt;
    return Args{Arguments::from_bytes({bytes, count}), truncated};
  }

 private:
  Units units_;
};

}  // namespace oomcast::wire
