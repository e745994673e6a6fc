// Loads, attaches and reads the kernel programs. The only user of libbpf and the skeleton.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/kernel_features.h"
#include "collect/roots.h"
#include "wire/records.h"

namespace oomcast {

/// State of one kernel program on this kernel.
struct ProgramState {
  std::string name;  // as in bpf/
  bool attached = false;
  std::string why_not;  // empty when attached, or when it is only attached on demand
};

struct BpfOptions {
  Roots roots;
  std::optional<KernelFeatures> features;  // nullopt: the kernel is asked
  std::uint32_t memory_hierarchy = 0;      // of /proc/cgroups
  Nanos interval{};
  Bytes host_memory;
  std::string cgroup_mount;   // of the memory hierarchy, as this process reaches it
  std::string tickless_cpus;  // as the kernel lists them ("1-3,5"): they may run without its tick (nohz_full)
  wire::Units units;
};

/// What was lost since load, by reason; index as wire::lost_reasons().
using LostCounts = std::vector<std::uint64_t>;

class BpfSource {
 public:
  /// Loads and attaches. Programs whose hook this kernel lacks, and optional ones that it refuses, are left
  /// out and named in programs(). Error::forbidden: nothing can be loaded; says what is missing (privilege,
  /// BTF, ring buffer). Cost: 100-300 ms and a transient 25 MiB, most of it the kernel's BTF.
  static Result<std::unique_ptr<BpfSource>> load(const BpfOptions& options);
  virtual ~BpfSource() = default;

  /// Becomes readable when records should be read now. Others wait for the next drain().
  virtual int fd() const = 0;

  /// Hands the waiting records to `sink`, samples first, at most `max_records` of each ring, in each
  /// ring's order. Returns whether more wait.
  virtual bool drain(const std::function<void(const wire::Record&)>& sink,
                     std::size_t max_records = 4096) = 0;

  /// Records for every cgroup below the mount whose usage or limit is not what was told last; about 0.6 ms
  /// for 1,000. With more than 4,096 only each second call does so, with 8,192 each third, and so on: what
  /// runs is reported meanwhile. false: this kernel has no cgroup iterator, or a walk has lasted for 2 s, as
  /// somebody holds cgroup_mutex: read the files.
  virtual bool walk_cgroups() = 0;

  /// Time of the next drain() if fd() does not become readable before; records that can wait do so for at most
  /// 100 ms. Drain once more after this call.
  virtual void sleep_until(MonoTime until) = 0;

  /// Follows every RSS change while on; costs a fault-bound program 3-5 %. false: not possible on this kernel.
  virtual bool set_exact(bool on) = 0;

  /// How the CPython of a process keeps what it executes, so that its line is told if it is killed, and that
  /// of children which execute nothing else. nullptr: it is none (any more). false: there is no room, which
  /// 4,096 processes have.
  virtual bool set_python(std::uint32_t tgid, const std::vector<std::byte>* layout) = 0;

  /// The map of these layouts, for other kernel programs.
  virtual int pythons() const = 0;

  virtual LostCounts lost() const = 0;
  /// Records that did not decode; a bug or a mismatched build, never normal.
  virtual std::uint64_t undecodable() const = 0;
  /// Times a program was skipped because it interrupted itself.
  virtual std::uint64_t missed_runs() const = 0;
  virtual void for_each_stall(
      const std::function<void(std::uint64_t inode, const wire::Stalls&)>& sink) const = 0;
  virtual const std::vector<ProgramState>& programs() const = 0;
};

}  // namespace oomcast
