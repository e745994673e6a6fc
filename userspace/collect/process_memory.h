// What is mapped in a process, and what stands there. Nothing of it can be trusted: the process may write
// anything, change it while it is read, and end at any moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/procfs.h"
#include "collect/roots.h"

namespace oomcast {

/// From now on whatever in this process looks at another one's address space for longer than `most` ends this
/// process. Such a look holds the other's mm, and waits for its mmap_lock: while it waits, the memory of an
/// OOM victim is not freed, and the kernel kills the next one (seen on 6.12 with LTP's oom01). Only a signal
/// that is fatal ends that wait, so it is for a process that can be lost.
void limit_looks(Nanos most);
/// A look: between two calls of the system that hold another's mm nothing else should be done. Free without a
/// limit.
class Look {
 public:
  Look();
  ~Look();
  Look(const Look&) = delete;
};

/// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  bool accessible = false;  // it may be read, written or executed
  bool executable = false, shared = false;
  std::uint64_t inode = 0;
  std::string device;  // "fe:00"
  std::string path;    // bytes as the kernel escapes them; "[heap]", or empty
};
std::vector<Mapping> parse_maps(std::string_view text);

/// A file, and where a process has it mapped: where nobody wrote, its bytes stand there.
struct MappedFile {
  UniqueFd fd;
  std::vector<Mapping> mappings;
  /// False: it is not all in one of these, or not in the file.
  bool read(std::uint64_t address, std::span<std::byte> to) const;
};

class ProcessMemory {
 public:
  ProcessMemory(const Roots& roots, std::uint32_t pid);

  std::uint32_t pid() const { return pid_; }
  /// Calls `each` for one mapping after the other, 65,536 at most; each read of some 60 is a look, and one is
  /// in memory at a time. Error: gone, or not allowed.
  Status for_each_mapping(const std::function<void(Mapping&&)>& each) const;
  /// The first of them, as far as 2 MiB hold them: 10,000 to 16,384. Neighbours without a file and with the
  /// same rights are one.
  Result<std::vector<Mapping>> maps() const;
  /// The mapped file, whatever its name, its mount namespace, and whether it still has a name; and a name by
  /// which it is found as long as it is open. nullopt: it is no regular file, or gone. What a process has
  /// mapped may be a device, and to open one can be to use it.
  struct File {
    UniqueFd fd;
    std::string path;
  };
  std::optional<File> open_file(const Mapping& mapping) const;
  /// A file by its absolute name in the process's own root: a regular one, of this owner or root, reached
  /// without a link. nullopt: there is none.
  std::optional<File> open_in_root(const std::string& path, std::uint32_t owner) const;

  /// A file of the machine itself, by a name that no process chose.
  std::optional<File> open_of_machine(const std::string& path) const;
  /// nullopt: it is gone.
  std::optional<ProcStatus> status() const;

  /// All of `to` from `address`; false: not readable, gone, or some of it is not in memory: to read that
  /// would wait for a disk, or for a file system that never answers, while its memory is held, and charge it
  /// to the process's cgroup, which may have no room. Nor is what it shares with a process that it was forked
  /// from copied, nor a device's memory read. Two system calls for each page.
  bool read(std::uint64_t address, std::span<std::byte> to) const;
  template <typename T>
  std::optional<T> read(std::uint64_t address) const {
    T value;
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }

  /// What of these mappings is not in memory is read from the file, which holds nobody's memory.
  void set_file(MappedFile file) { file_ = std::move(file); }

  /// Of a page that reclaim can take between the question where it is and the read. The read then brings it
  /// back, charged to the process's cgroup, and where that is full it is the read that makes the kernel kill.
  /// `anon`: it is no file's page, and only swap can take it. false: such a page is not read
  /// now. Asked for each, so it has to be cheap. Without a guard all are read.
  using Guard = std::function<bool(bool anon)>;
  void set_guard(Guard guard) { guard_ = std::move(guard); }
  /// Reads that failed so far because the guard refused a page, or the process has too many mappings.
  std::uint64_t refused() const { return refused_; }

  /// Of up to 32 pages from a page's begin those that are in memory now: to read another one would bring it
  /// there, and count as this process's growth. Those that the guard refuses are read from the file, if it
  /// has them. Which were read, by bit. A system call for pagemap, and one for each run of pages.
  std::uint32_t read_present(std::uint64_t begin, std::span<std::byte> to) const;

  /// Of one page, as /proc/PID/pagemap tells: is there memory or swap behind it, and is it the process's own?
  struct Page {
    bool held = false;
    bool shared = false;  // a file's, or shared memory
  };
  std::optional<Page> page_at(std::uint64_t address) const;

  /// What it shows as its arguments (4 KiB at most) and its environment. The kernel takes both from its
  /// memory, and swaps them in: nullopt, too, where they are not in it.
  std::optional<ProcCmdline> arguments() const;
  std::optional<std::string> environment(std::size_t most) const;

  /// What no other process maps: Private_Clean and Private_Dirty of smaps_rollup, but for what may not be
  /// touched (PROT_NONE). smaps_rollup holds the lock for one mapping, however large; this, by pagemap, for
  /// 2 MiB of addresses, .1 ms. nullopt: gone, not allowed, or it has more than `most` mapped, touched or
  /// not. Huge pages of hugetlbfs are counted, too: not for who has them. Cost: 10
  /// ms for each GiB in memory, 1 for each GiB that is mapped only (a virtual machine of 2023).
  std::optional<Bytes> private_memory(Bytes most = GiB(256)) const;

 private:
  bool open_pagemap() const;
  enum class Kind { nowhere, swapped, refused, anon, of_file };
  /// Entries that were read; SIZE_MAX: none can be.
  std::size_t pagemap(std::uint64_t address, std::span<std::uint64_t> to) const;
  Kind kind_of(std::uint64_t pagemap_entry, std::uint64_t address) const;
  Kind kind_at(std::uint64_t address) const;
  /// By the mappings of the last 2 ms: anon, or nowhere if a device may be mapped there. refused: they cannot
  /// be read, or are more than 8,192, after which they are not read again.
  Kind kind_by_mappings(std::uint64_t address) const;
  std::size_t read_here(std::uint64_t address, std::span<std::byte> to, bool of_file) const;  // bytes
  /// As far as it is told where they stand, and `most` bytes of each.
  bool strings_present(std::uint64_t ProcStrings::*begin, std::uint64_t ProcStrings::*end,
                       std::size_t most) const;
  std::string dir_;
  MappedFile file_;
  Guard guard_;
  mutable std::uint64_t refused_ = 0;
  mutable std::vector<std::pair<std::uint64_t, std::uint64_t>> anon_;  // where no device is
  mutable std::optional<MonoTime> anon_read_;
  mutable bool anon_known_ = false;
  mutable UniqueFd pagemap_, mem_;  // opened at the first question
  std::uint32_t pid_;
};

}  // namespace oomcast
