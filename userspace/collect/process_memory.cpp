#include "collect/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxMappings = 65536, kLongestMapLine = 32 << 10;
constexpr std::size_t kMaxBytes = 2 << 20;  // limit of the cache
constexpr std::size_t kMaxPages = 32;       // read at once
constexpr std::size_t kMaxAsked = 8192;     // mappings to search for a device's; 6 ms
constexpr Nanos kMappedFor = std::chrono::milliseconds(2);
constexpr std::size_t kPieceOfPagemap = 512;  // entries: 2 MiB, for which the kernel holds the mmap_lock
constexpr std::uint64_t kUserAddresses = std::uint64_t{1} << 63;  // above is [vsyscall]

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool take_hex(std::string_view& text, std::uint64_t& value) {
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (err != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// A driver's mapping has the name of its file, or of an inode without one; an anonymous mapping may have been
// given a name, in brackets.
bool is_device_path(std::string_view path) {
  bool is_file = path.starts_with('/') && !path.starts_with("/dev") && !path.starts_with("/sys/") &&
                 !path.starts_with("/proc/") && !path.starts_with("/dmabuf") &&
                 !path.starts_with("/anon_inode");
  return !is_file && !path.empty() && path != "[heap]" && path != "[stack]" && !path.starts_with("[anon:");
}

Nanos longest_look{};

void end_this_process_after(Nanos time) {
  auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  itimerval timer{{}, {us / 1'000'000, us % 1'000'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);  // SIGALRM terminates by default
}

}  // namespace

// A process killed while waiting for a lock has to run once more before it releases anything: 8 ms on one
// busy CPU.
void limit_looks(Nanos most) {
  longest_look = most * 4 / 5;
}

Look::Look() {
  if (longest_look > Nanos{}) end_this_process_after(longest_look);
}

Look::~Look() {
  if (longest_look > Nanos{}) end_this_process_after({});
}

namespace {

std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping m;
  if (!take_hex(line, m.begin) || !line.starts_with('-')) return std::nullopt;
  line.remove_prefix(1);
  if (!take_hex(line, m.end) || m.end <= m.begin) return std::nullopt;
  std::string_view permissions = next_field(line);
  if (permissions.size() != 4) return std::nullopt;
  m.accessible = !permissions.starts_with("---");
  m.executable = permissions[2] == 'x';
  m.shared = permissions[3] == 's';
  std::string_view offset = next_field(line);
  if (!take_hex(offset, m.offset)) return std::nullopt;
  m.device = next_field(line);
  auto inode = parse_u64(next_field(line));
  if (!inode) return std::nullopt;
  m.inode = *inode;
  m.path = trim(line);
  return m;
}

// Whether it continues a region mapped in pieces, such as a heap or JIT code.
bool goes_on(const Mapping& m, const Mapping& last) {
  return m.inode == 0 && last.inode == 0 && m.begin == last.end && m.path == last.path &&
         m.accessible == last.accessible && m.executable == last.executable && m.shared == last.shared;
}

}  // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> out;
  std::string_view line;
  while (out.size() < kMaxMappings && next_line(text, line))
    if (auto m = parse_mapping(line)) out.push_back(*std::move(m));
  return out;
}

ProcessMemory::ProcessMemory(const Roots& roots, std::uint32_t pid)
    : dir_(fmt::format("{}/{}", roots.proc(), pid)), pid_(pid) {}

Status ProcessMemory::for_each_mapping(const std::function<void(Mapping&&)>& each) const {
  UniqueFd fd(open((dir_ + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  std::size_t count = 0;
  for (ssize_t n = fd ? 1 : -1; n != 0 && count < kMaxMappings;) {
    if (n > 0) {
      Look look;
      n = ::read(fd.get(), part.data(), part.size());
    }
    if (n < 0) return Error::from_errno(fmt::format("reading the mappings of process {}", pid_));
    text.append(part.data(), static_cast<std::size_t>(n));
    std::size_t lines = text.rfind('\n') + 1;  // 0: no complete line
    std::string_view rest = std::string_view(text).substr(0, lines), line;
    while (count < kMaxMappings && next_line(rest, line))
      if (auto m = parse_mapping(line)) {
        each(*std::move(m));
        ++count;
      }
    text.erase(0, lines);
    if (text.size() > kLongestMapLine) return Error::failed("a mapping has no end");
  }
  return Ok{};
}

Result<std::vector<Mapping>> ProcessMemory::maps() const {
  std::vector<Mapping> out;
  std::size_t bytes = 0;
  auto ok = for_each_mapping([&](Mapping&& m) {
    if (!out.empty() && goes_on(m, out.back())) {
      out.back().end = m.end;
    } else if (bytes < kMaxBytes) {
      bytes += sizeof(m) + m.path.size();
      out.push_back(std::move(m));
    }
  });
  if (!ok) return ok.error();
  return out;
}

namespace {

// Checks the type before opening: opening could arm a watchdog, rewind a tape or wait for a FIFO's writer.
std::optional<ProcessMemory::File> open_regular(const UniqueFd& found, std::optional<std::uint32_t> owner) {
  struct stat about {};
  if (!found || fstat(found.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  if (owner && about.st_uid != *owner && about.st_uid != 0) return std::nullopt;
  UniqueFd fd(open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string path = fmt::format("/proc/self/fd/{}", fd.get());
  return ProcessMemory::File{std::move(fd), std::move(path)};
}

}  // namespace

std::optional<ProcessMemory::File> ProcessMemory::open_file(const Mapping& mapping) const {
  std::string path = fmt::format("{}/map_files/{:x}-{:x}", dir_, mapping.begin, mapping.end);
  UniqueFd found;
  {
    Look look;  // resolving the link takes the target's mmap_lock
    found.reset(open(path.c_str(), O_PATH | O_CLOEXEC));
  }
  return open_regular(found, std::nullopt);
}

// One component at a time: O_PATH opens a symlink itself, and nothing is below that.
std::optional<ProcessMemory::File> ProcessMemory::open_in_root(const std::string& path,
                                                               std::uint32_t owner) const {
  UniqueFd at(open((dir_ + "/root").c_str(), O_PATH | O_CLOEXEC));
  for (std::size_t from = 1; at && from < path.size();) {
    std::size_t to = std::min(path.find('/', from), path.size());
    std::string name = path.substr(from, to - from);
    at.reset(name == ".." ? -1 : openat(at.get(), name.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
    from = to + 1;
  }
  return open_regular(at, owner);
}

std::size_t ProcessMemory::pagemap(std::uint64_t address, std::span<std::uint64_t> to) const {
  Look look;
  if (!open_pagemap()) return SIZE_MAX;
  auto at = static_cast<off_t>(address / page_size() * sizeof(to[0]));
  ssize_t got = pread(pagemap_.get(), to.data(), to.size_bytes(), at);
  return got < 0 ? SIZE_MAX : static_cast<std::size_t>(got) / sizeof(to[0]);
}

ProcessMemory::Kind ProcessMemory::kind_of(std::uint64_t entry, std::uint64_t address) const {
  bool of_file = entry >> 61 & 1, mapped_once = entry >> 56 & 1;
  if (!(entry >> 63)) return entry >> 62 & 1 ? Kind::swapped : Kind::nowhere;
  if (guard_ && !guard_(!of_file)) return Kind::refused;
  if (of_file) return Kind::of_file;
  return mapped_once ? Kind::anon : kind_by_mappings(address);
}

// After an exec or exit the open pagemap reads as empty, even if the pid was reused. If it cannot be opened,
// treat each page as present, and read it in the way that calls no driver.
ProcessMemory::Kind ProcessMemory::kind_at(std::uint64_t address) const {
  std::uint64_t entry = 0;
  std::size_t got = pagemap(address, {&entry, 1});
  if (got == SIZE_MAX) return guard_ && !guard_(false) ? Kind::refused : Kind::of_file;
  return got ? kind_of(entry, address) : Kind::nowhere;
}

bool ProcessMemory::strings_present(std::uint64_t ProcStrings::*begin, std::uint64_t ProcStrings::*end,
                                    std::size_t most) const {
  auto stat = read_file_at(AT_FDCWD, (dir_ + "/stat").c_str(), 4096);
  auto strings = stat ? parse_proc_strings(*stat) : std::nullopt;
  if (!strings || (*strings).*end <= (*strings).*begin) return true;
  std::uint64_t size = (*strings).*end - (*strings).*begin;
  std::array<std::uint64_t, kMaxPages> entries{};
  std::uint64_t first = (*strings).*begin / page_size();
  std::uint64_t last = ((*strings).*begin + std::min<std::size_t>(most, size) - 1) / page_size();
  auto asked = std::span(entries).first(std::min<std::uint64_t>(last - first + 1, kMaxPages));
  std::size_t got = pagemap((*strings).*begin, asked);
  if (got == SIZE_MAX) return true;
  return got == asked.size() && std::ranges::all_of(asked, [&](std::uint64_t entry) {
           return entry >> 63 && (!guard_ || guard_(!(entry >> 61 & 1)));
         });
}

std::optional<ProcCmdline> ProcessMemory::arguments() const {
  constexpr std::size_t kMax = 4096;
  // If a process has overwritten its title, the kernel reads on into the environment.
  if (!strings_present(&ProcStrings::arguments, &ProcStrings::environment_end, kMax + 1)) return std::nullopt;
  Look look;
  auto text = read_file_at(AT_FDCWD, (dir_ + "/cmdline").c_str(), kMax + 1);
  return text ? std::optional(parse_cmdline(*text, kMax)) : std::nullopt;
}

std::optional<std::string> ProcessMemory::environment(std::size_t most) const {
  if (!strings_present(&ProcStrings::environment, &ProcStrings::environment_end, most)) return std::nullopt;
  Look look;
  return read_file_at(AT_FDCWD, (dir_ + "/environ").c_str(), most);
}

bool MappedFile::read(std::uint64_t address, std::span<std::byte> to) const {
  for (const Mapping& m : mappings) {
    if (address < m.begin || address >= m.end || m.end - address < to.size()) continue;
    auto at = static_cast<off_t>(m.offset + (address - m.begin));
    return pread(fd.get(), to.data(), to.size(), at) == static_cast<ssize_t>(to.size());
  }
  return false;
}

// Two ways to read, and neither is harmless for all pages:
// - process_vm_readv() pins what it reads. Since Linux 5.19 the kernel first copies an anonymous page shared
//   by fork, charged to its cgroup (seen on 6.18: reading 64 MiB of a worker allocated 64 MiB; at the cgroup's
//   limit the reader triggered the OOM kill).
// - /proc/PID/mem neither pins nor copies, but for device mappings the kernel calls the driver's access(),
//   which reads registers; NVIDIA's is reported to oops there (595 on 6.18).
// So file pages are read by the first, anonymous pages by the second. A page mapped exclusively (bit 56 of
// its pagemap entry) is not a device's; one with neither that bit nor the file bit may be, and the process's
// mappings decide.
std::size_t ProcessMemory::read_here(std::uint64_t address, std::span<std::byte> to, bool of_file) const {
  Look look;
  ssize_t got = -1;
  if (of_file) {
    iovec local{to.data(), to.size()}, remote{reinterpret_cast<void*>(address), to.size()};
    got = process_vm_readv(static_cast<pid_t>(pid_), &local, 1, &remote, 1, 0);
  } else {
    if (!mem_) mem_.reset(open((dir_ + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    if (mem_) got = pread(mem_.get(), to.data(), to.size(), static_cast<off_t>(address));
  }
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

ProcessMemory::Kind ProcessMemory::kind_by_mappings(std::uint64_t address) const {
  MonoTime now = mono_now();
  if (!anon_read_ || (anon_known_ && now - *anon_read_ >= kMappedFor)) {
    anon_.clear();
    std::size_t count = 0;
    auto ok = for_each_mapping([&](Mapping&& m) {
      ++count;
      if (m.shared || is_device_path(m.path)) return;
      if (anon_.empty() || anon_.back().second != m.begin) anon_.emplace_back(m.begin, m.begin);
      anon_.back().second = m.end;
    });
    anon_known_ = ok && count <= kMaxAsked;
    anon_read_ = mono_now();
  }
  if (!anon_known_) return Kind::refused;
  auto after = std::ranges::upper_bound(anon_, address, {}, &std::pair<std::uint64_t, std::uint64_t>::first);
  return after != anon_.begin() && address < std::prev(after)->second ? Kind::anon : Kind::nowhere;
}

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) const {
  // Some pages of a large object may be written, and others never touched.
  for (std::size_t at = 0; at < to.size();) {
    std::uint64_t from = address + at;
    auto part = to.subspan(at, std::min<std::size_t>(to.size() - at, page_size() - from % page_size()));
    Kind kind = kind_at(from);
    bool read = kind == Kind::anon || kind == Kind::of_file
                    ? read_here(from, part, kind == Kind::of_file) == part.size()
                    : (kind == Kind::nowhere || kind == Kind::refused) && file_.read(from, part);
    if (!read) {
      refused_ += kind == Kind::refused;
      return false;
    }
    at += part.size();
  }
  return true;
}

std::uint32_t ProcessMemory::read_present(std::uint64_t begin, std::span<std::byte> to) const {
  std::array<std::uint64_t, kMaxPages> entries{};
  std::array<Kind, kMaxPages> kinds{};
  std::size_t pages = std::min(to.size() / page_size(), kMaxPages);
  if (pagemap(begin, std::span(entries).first(pages)) != pages) return 0;
  for (std::size_t i = 0; i < pages; ++i) kinds[i] = kind_of(entries[i], begin + i * page_size());
  std::uint32_t read = 0;
  for (std::size_t from = 0, end = 0; from < pages; from = end) {
    for (end = from + 1; end < pages && kinds[end] == kinds[from];) ++end;
    auto part = to.subspan(from * page_size(), (end - from) * page_size());
    std::uint64_t at = begin + from * page_size();
    std::size_t got = 0;
    if (kinds[from] == Kind::anon || kinds[from] == Kind::of_file) {
      got = read_here(at, part, kinds[from] == Kind::of_file) / page_size();
    } else if (kinds[from] == Kind::refused) {
      got = file_.read(at, part) ? end - from : 0;
      refused_ += end - from - got;
    }
    for (std::size_t i = from; i < from + got; ++i) read |= std::uint32_t{1} << i;
  }
  return read;
}

std::optional<ProcessMemory::File> ProcessMemory::open_of_machine(const std::string& path) const {
  return open_regular(UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC)), 0);
}

std::optional<ProcStatus> ProcessMemory::status() const {
  auto text = read_file_at(AT_FDCWD, (dir_ + "/status").c_str(), 16384);
  return text ? std::optional(parse_status(*text)) : std::nullopt;
}

std::optional<ProcessMemory::Page> ProcessMemory::page_at(std::uint64_t address) const {
  std::uint64_t entry = 0;
  if (pagemap(address, {&entry, 1}) != 1) return std::nullopt;
  return Page{(entry >> 62) != 0, (entry >> 61 & 1) != 0};
}

std::optional<Bytes> ProcessMemory::private_memory(Bytes most) const {
  struct Range {
    std::uint64_t begin, end;
  };
  std::vector<Range> ranges;
  std::uint64_t mapped = 0, most_mapped = static_cast<std::uint64_t>(most.count);
  auto ok = for_each_mapping([&](Mapping&& m) {
    if (!m.accessible || m.end > kUserAddresses) return;
    mapped += m.end - m.begin;
    if (ranges.empty() || ranges.back().end != m.begin) ranges.push_back({m.begin, m.begin});
    ranges.back().end = m.end;
  });
  if (!ok || mapped > most_mapped) return std::nullopt;
  std::vector<std::uint64_t> entries(kPieceOfPagemap);
  std::uint64_t own = 0;
  for (Range r : ranges) {
    for (std::uint64_t at = r.begin / page_size(), end = r.end / page_size(); at < end;) {
      Look look;
      auto want = std::min<std::uint64_t>(entries.size(), end - at) * sizeof(std::uint64_t);
      ssize_t got = open_pagemap() ? pread(pagemap_.get(), entries.data(), want,
                                           static_cast<off_t>(at * sizeof(std::uint64_t)))
                                   : -1;
      if (got < static_cast<ssize_t>(sizeof(std::uint64_t))) return std::nullopt;
      auto read = static_cast<std::uint64_t>(got) / sizeof(std::uint64_t);
      for (std::uint64_t entry : std::span(entries).first(read)) own += entry >> 63 & entry >> 56 & 1;
      at += read;
    }
  }
  return Bytes{static_cast<std::int64_t>(own * page_size())};
}

bool ProcessMemory::open_pagemap() const {
  if (!pagemap_) pagemap_.reset(open((dir_ + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  return static_cast<bool>(pagemap_);
}

}  // namespace oomcast
