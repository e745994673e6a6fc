// Decides which facts of a stream are printed. Stores and recordings are not affected.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/task_id.h"
#include "base/units.h"
#include "stream/facts.h"

namespace oomcast {

/// Selects what is shown by default: events, and forecasts whose verdict or alert changes.
class News {
 public:
  bool is(const Fact& fact);
  /// Whether verdict or alert are others than those before of the same cgroup, process, card or series. Too
  /// early, and stable from the start, are no news, nor is what turns again within ten seconds from one verdict
  /// that asks for nothing to another.
  bool turns(const ForecastFact& forecast);

 private:
  struct Said {
    Verdict verdict = Verdict::unknown;
    bool alert = false;
    MonoTime time{};
  };
  std::unordered_map<std::uint64_t, Said> cgroups_;
  std::unordered_map<TaskId, Said> processes_;
  std::map<std::pair<GpuUuid, TaskId>, Said> cards_;
  std::map<std::string, Said> series_;  // of another tool
};

struct FactChoice {
  bool all = false;            // text: not only what is news
  std::set<std::string> only;  // types; empty: all
  /// Of each cgroup, process and card at most one line of a type in this time; zero: none. Of samples alone,
  /// and of forecasts that do not turn.
  std::optional<Nanos> samples;
};

class FactFilter {
 public:
  /// `text`: without a choice of types it is what is news, the start and the end; losses always come.
  FactFilter(FactChoice choice, bool text)
      : choice_(std::move(choice)), text_(text), news_only_(text && !choice_.all && choice_.only.empty()) {}

  bool wants(const Fact& fact);
  /// The same of a line of a recording: its type, and the line as JSON.
  bool wants(const std::string& type, std::string_view json) const;

 private:
  using Subject = std::tuple<TaskId, std::uint64_t, GpuUuid, std::size_t>;  // its inode, the type
  bool is_chosen(const std::string& type) const;
  bool is_due(MonoTime time, const Subject& of);
  void forget(TaskId task, std::uint64_t inode);

  FactChoice choice_;
  bool text_, news_only_;
  News news_;
  std::map<Subject, MonoTime> printed_;
};

}  // namespace oomcast
