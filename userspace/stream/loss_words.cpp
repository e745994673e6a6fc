#include "stream/loss_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stream/cells.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestReason = 40;  // columns
constexpr std::string_view kHarmless = "kills are not affected";

// "1 {one} {how}{why}; {effect}"
struct LossWords {
  std::string_view reason, one, many, how, why;
  std::string_view effect = kHarmless;
};

constexpr std::array kWords = {
    // Rings and tables of the kernel programs.
    LossWords{"samples_ring_full", "sample", "samples", "dropped", ": the buffer was full"},
    LossWords{"events_ring_full", "record of a kill", "records of kills", "dropped", ": the buffer was full",
              "details of a kill may be missing"},
    LossWords{"cgroup_table_full", "sample of a small cgroup", "samples of small cgroups", "delayed",
              ": there are more than 16,384 cgroups"},
    LossWords{"process_table_full", "process", "processes", "followed less exactly",
              ": the table of processes was full"},
    LossWords{"victim_table_full", "victim", "victims", "without command line or confirmed end",
              ": the table of victims was full", "the kill itself is recorded"},
    LossWords{"stall_table_full", "wait for memory", "waits for memory", "not counted",
              ": the table was full"},
    LossWords{"user_kills_ring_full", "SIGKILL from user space", "SIGKILLs from user space", "dropped",
              ": the buffer was full", "OOM kills are not affected"},
    LossWords{"user_kills_over_rate", "SIGKILL from user space", "SIGKILLs from user space", "left out",
              ": too many in one second", "OOM kills are not affected"},
    LossWords{"exit_kills_over_rate", "SIGKILL of processes that ended with another",
              "SIGKILLs of processes that ended with another", "left out", ": too many in one second",
              "OOM kills are not affected"},
    LossWords{"kernel_kills_over_rate", "SIGKILL by the kernel for another reason than memory",
              "SIGKILLs by the kernel for other reasons than memory", "left out", ": too many in one second",
              "OOM kills are not affected"},
    LossWords{"dying_code_no_room", "victim", "victims", "without Python lines", ": too many died at once",
              "the kill itself is recorded"},
    LossWords{"python_table_full", "Python program", "Python programs", "without lines",
              ": the table was full"},
    LossWords{"program_interrupted_itself", "run of a kernel program", "runs of kernel programs", "skipped",
              ": it was running on that CPU already", "a sample or a detail may be missing"},
    LossWords{"undecodable_record", "record", "records", "not understood", "",
              "a bug in oomcast, or kernel programs of another build: something may be missing"},
    // The tracer.
    LossWords{"samples_spared", "sample", "samples", "skipped", " to spare a busy machine"},
    LossWords{"model_full", "cgroup or process", "cgroups or processes", "not followed",
              ": there are too many", "their curves and forecasts are missing, kills are not"},
    LossWords{"not_stored", "record", "records", "not stored", ": the disk failed or was too slow",
              "later reports may lack them"},
    LossWords{"reader_slow", "reader", "readers", "cut off", ": it was too slow for the daemon's stream"},
    LossWords{"reader_no_room", "reader", "readers", "refused", ": 16 read the daemon's stream already"},
    LossWords{"not_in_journal", "entry", "entries", "not in the journal", ": it took none",
              "the store is not affected"},
    LossWords{"output", "line", "lines", "not printed", ": the reader of this output was too slow",
              "the store is not affected"},
    LossWords{"reader_given_up", "process", "processes", "not read in time", " (private memory, Python)"},
    LossWords{"reader_refused", "helper process", "helper processes", "not used",
              ": what keeps it harmless is missing", "no command lines, private memory and Python lines"},
    LossWords{"growth_look_given_up", "profile of a growth", "profiles of growth", "stopped",
              ": it took too long", "the line that grows may be missing, kills are not affected"},
    LossWords{"growth_look_no_room", "profile of a growth", "profiles of growth", "not begun",
              ": less than 78 MiB was left", "the line that grows may be missing, kills are not affected"},
    LossWords{"growth_look_not_allowed", "profile of a growth", "profiles of growth", "not allowed",
              " (see oomcast doctor)", "the line that grows is missing, kills are not affected"},
    LossWords{"too_many_actions", "action of an alert", "actions of alerts", "not started",
              ": too many still ran", "the alert itself was given"},
    LossWords{"oom_kill_unseen", "OOM kill", "OOM kills", "seen by nothing but the kernel's counter", "",
              "of whom is not known"},
    LossWords{"oom_kill_no_room", "OOM kill", "OOM kills", "dropped", ": more than 2,048 were open at once",
              "history lacks them"},
    LossWords{"oom_victim_late", "victim of a group", "victims of a group",
              "killed after its line was printed", "", "the store has them"},
    LossWords{"kernel_log_overwritten", "line of the kernel log", "lines of the kernel log", "overwritten",
              " before they were read", "details of a kill may be missing"},
    LossWords{"kernel_log_unreadable", "record of the kernel log", "records of the kernel log",
              "not understood", "", "details of a kill may be missing"},
    // GPUs.
    LossWords{"gpu_ring_full", "call of the GPU driver", "calls of the GPU driver", "dropped",
              ": the buffer was full", "GPU memory may be off, kills are not affected"},
    LossWords{"gpu_code_no_room", "GPU allocation", "GPU allocations", "without a Python line",
              ": too many at once"},
    LossWords{"gpu_page_events", "event of GPU pages", "events of GPU pages", "not counted", "",
              "managed memory may be off, kills are not affected"},
    LossWords{"gpu_not_followed", "attempt to follow the GPU driver", "attempts to follow the GPU driver",
              "refused", " by the kernel (see oomcast doctor)",
              "GPU memory is missing, kills are not affected"},
    // oomcast blame
    LossWords{"faults_ring_full", "sample", "samples", "dropped", ": the buffer was full",
              "shares are less exact"},
    LossWords{"allocations_busy", "allocation", "allocations", "not sampled", ": another was being recorded",
              "shares are less exact"},
    LossWords{"block_table_full", "block", "blocks", "not followed", ": the table was full",
              "shares are less exact"},
    LossWords{"frees_ring_full", "freed block", "freed blocks", "not reported", ": the buffer was full",
              "what still lives was read at the end"},
    LossWords{"scope_table_full", "process", "processes", "not watched", ": too many began",
              "only their growth is known"},
    LossWords{"reader_full", "sample", "samples", "dropped", ": they came too fast to be read",
              "shares are less exact"},
    LossWords{"undecodable", "sample", "samples", "not understood", "", "shares are less exact"},
};

const LossWords* words_of(std::string_view reason) {
  const auto* known = std::ranges::find(kWords, reason, &LossWords::reason);
  return known == kWords.end() ? nullptr : known;
}

std::string what_was_lost(std::string_view reason, std::uint64_t count) {
  const LossWords* words = words_of(reason);
  if (!words) return fmt::format("{} records ({})", count, cut_middle(displayable(reason), kLongestReason));
  return fmt::format("{} {} {}", count, count == 1 ? words->one : words->many, words->how);
}

}  // namespace

bool is_known_loss(std::string_view reason) {
  return words_of(reason) != nullptr;
}

std::vector<std::string_view> known_losses() {
  std::vector<std::string_view> out;
  for (const LossWords& each : kWords) out.push_back(each.reason);
  return out;
}

std::string describe_loss(std::string_view reason, std::uint64_t count) {
  const LossWords* words = words_of(reason);
  std::string out = what_was_lost(reason, count);
  return words ? out + fmt::format("{}; {}", words->why, words->effect) : out;
}

std::string summarize_losses(const std::map<std::string, std::uint64_t>& losses) {
  std::string out;
  bool harmless = true;
  for (const auto& [reason, count] : losses) {
    if (!count) continue;
    out += (out.empty() ? "" : ", ") + what_was_lost(reason, count);
    const LossWords* words = words_of(reason);
    harmless = harmless && words && words->effect.find("kills are not") != std::string_view::npos;
  }
  if (out.empty()) return out;
  return out + (harmless ? fmt::format("; {}", kHarmless) : "");
}

}  // namespace oomcast
