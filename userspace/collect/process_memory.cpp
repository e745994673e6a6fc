#include "collect/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <charconv>

#include "collect/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostMappings = 65536;

bool take_hex(std::string_view& text, std::uint64_t& value) {
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (err != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

Nanos longest_look{};

void end_this_process_after(Nanos time) {
  auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  itimerval timer{{}, {us / 1'000'000, us % 1'000'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);  // SIGALRM, in its default action
}

}  // namespace

void limit_looks(Nanos most) {
  longest_look = most;
}

Look::Look() {
  if (longest_look > Nanos{}) end_this_process_after(longest_look);
}

Look::~Look() {
  if (longest_look > Nanos{}) end_this_process_after({});
}

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> out;
  std::string_view line;
  while (out.size() < kMostMappings && next_line(text, line)) {
    Mapping m;
    if (!take_hex(line, m.begin) || !line.starts_with('-')) continue;
    line.remove_prefix(1);
    if (!take_hex(line, m.end) || m.end <= m.begin) continue;
    std::string_view permissions = next_field(line);
    if (permissions.size() != 4) continue;
    m.executable = permissions[2] == 'x';
    m.shared = permissions[3] == 's';
    std::string_view offset = next_field(line);
    if (!take_hex(offset, m.offset)) continue;
    m.device = next_field(line);
    auto inode = parse_u64(next_field(line));
    if (!inode) continue;
    m.inode = *inode;
    m.path = trim(line);
    out.push_back(std::move(m));
  }
  return out;
}

ProcessMemory::ProcessMemory(const Roots& roots, std::uint32_t pid)
    : dir_(fmt::format("{}/{}", roots.proc(), pid)), pid_(pid) {}

Result<std::vector<Mapping>> ProcessMemory::maps() const {
  Look look;
  auto text = read_file_at(AT_FDCWD, (dir_ + "/maps").c_str(), kMostMappings * 256);
  if (!text) return Error::from_errno(fmt::format("reading the mappings of process {}", pid_));
  return parse_maps(*text);
}

std::string ProcessMemory::file_of(const Mapping& mapping) const {
  return fmt::format("{}/map_files/{:x}-{:x}", dir_, mapping.begin, mapping.end);
}

std::optional<ProcessMemory::File> ProcessMemory::open_file(const Mapping& mapping) const {
  Look look;  // a link below map_files is looked up in the address space
  UniqueFd fd(open(file_of(mapping).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string path = fmt::format("/proc/self/fd/{}", fd.get());
  return File{std::move(fd), std::move(path)};
}

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) const {
  Look look;
  iovec local{to.data(), to.size()};
  iovec remote{reinterpret_cast<void*>(address), to.size()};
  return process_vm_readv(static_cast<pid_t>(pid_), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(to.size());
}

std::optional<ProcessMemory::Page> ProcessMemory::page_at(std::uint64_t address) const {
  if (!pagemap_) pagemap_.reset(open((dir_ + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  auto page = address / static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (!pagemap_ ||
      pread(pagemap_.get(), &entry, sizeof(entry), static_cast<off_t>(page * sizeof(entry))) != sizeof(entry))
    return std::nullopt;
  return Page{(entry >> 62) != 0, (entry >> 61 & 1) != 0};
}

}  // namespace oomcast
