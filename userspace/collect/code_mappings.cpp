#include "collect/code_mappings.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

namespace oomcast {
namespace {

constexpr const char* kUncounted = "how often its allocator is mapped cannot be counted";

}  // namespace

Result<CodeMappings::Count> CodeMappings::count(int file, std::uint64_t offset, std::uint32_t tgid) const {
  // Three steps per node; few nodes on the path do not contain the page.
  constexpr std::uint64_t kStepsPerRun = 64, kMaxRuns = 4 * kMaxAll / kStepsPerRun;
  constexpr int kTries = 3;  // while another thread of this process changes its mappings
  auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto unmap = [page](void* at) { munmap(at, page); };
  void* mapped = mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file, static_cast<off_t>(offset / page * page));
  if (mapped == MAP_FAILED) return Error::from_errno("mapping a page of the allocator");
  std::unique_ptr<void, decltype(unmap)> own(mapped, unmap);
  *programs_.address = reinterpret_cast<std::uint64_t>(mapped);
  *programs_.tgid = tgid;
  *programs_.from = 0;
  for (auto* sum : {programs_.node, programs_.all, programs_.of_process, programs_.in_process}) *sum = 0;
  bool begun = false;
  for (int i = 0; i < kTries && !begun; ++i) begun = programs_.begin();
  if (!begun || *programs_.node == 0) return Error::failed(kUncounted);
  for (std::uint64_t i = 0; i < kMaxRuns && *programs_.node != 0 && *programs_.all <= kMaxAll; ++i)
    if (!programs_.walk()) return Error::failed(kUncounted);
  if (*programs_.node != 0 && *programs_.all <= kMaxAll) return Error::failed(kUncounted);
  Count out{*programs_.all, *programs_.of_process, *programs_.in_process};
  // Do not count the mapping made for counting.
  if (out.all) --out.all;
  if (out.of_process && tgid == static_cast<std::uint32_t>(getpid())) --out.of_process;
  return out;
}

std::string CodeMappings::why_not(int file, std::uint64_t offset, std::uint32_t tgid) const {
  auto counted = count(file, offset, tgid);
  return counted ? why_too_many(*counted) : counted.error().message;
}

std::string why_too_many(const CodeMappings::Count& count) {
  if (count.all > CodeMappings::kMaxAll)
    return fmt::format(
        "its allocator is mapped more than {} times on this machine, and the kernel visits each mapping for "
        "a "
        "breakpoint while nothing can fork",
        CodeMappings::kMaxAll);
  if (count.of_process == 0) return kUncounted;
  if (count.of_process > CodeMappings::kMaxOfProcess)
    return fmt::format(
        "it has mapped its allocator {} times, and for a breakpoint the kernel copies a page each",
        count.of_process);
  if (count.in_process > CodeMappings::kMaxInProcess)
    return fmt::format("it has {} mappings, and breakpoints are set in processes of up to {}",
                       count.in_process, CodeMappings::kMaxInProcess);
  return {};
}

}  // namespace oomcast
