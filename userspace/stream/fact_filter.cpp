#include "stream/fact_filter.h"

#include <nlohmann/json.hpp>
#include <type_traits>

namespace oomcast {
namespace {

bool is_sample(const Fact& fact) {
  auto* card = std::get_if<GpuSample>(&fact);  // what it held at its end comes once
  return std::holds_alternative<Sample>(fact) || std::holds_alternative<ProcessSampleFact>(fact) ||
         (card && !card->ended);
}

bool is_news_of_gpu(std::string_view op) {
  using Op = GpuEvent::Op;
  for (auto each = Op::context; each <= Op::xid; each = static_cast<Op>(static_cast<int>(each) + 1))
    if (to_string(each) == op) return is_news(each);
  return false;
}

constexpr Nanos kFlickers = std::chrono::seconds(10);

bool asks_nothing(Verdict verdict, bool alert) {
  return verdict != Verdict::leak && !alert;
}

TaskId task_of(const std::optional<ProcessRef>& process) {
  return process ? process->id : TaskId{};
}

}  // namespace

bool News::is(const Fact& fact) {
  if (auto* f = std::get_if<ForgottenFact>(&fact)) cgroups_.erase(f->cgroup.inode);
  if (auto* f = std::get_if<ExitFact>(&fact)) processes_.erase(f->process.id);
  if (auto* f = std::get_if<ForecastFact>(&fact)) return turns(*f);
  return kind_of(fact) == FactKind::event;
}

bool News::turns(const ForecastFact& f) {
  Said now{f.forecast.verdict, f.forecast.alert, f.time};
  Said& said = f.device    ? cards_[{*f.device, task_of(f.process)}]
               : f.process ? processes_[f.process->id]
               : f.cgroup  ? cgroups_[f.cgroup->id.inode]
                           : series_[f.series];
  // Of each second program that starts and ends; that a leak is none any more is to be read.
  bool fades = now.verdict == Verdict::unknown && !said.alert && said.verdict != Verdict::leak;
  if (fades) return false;
  bool same = now.verdict == said.verdict && now.alert == said.alert;
  // A program whose memory comes and goes is now stable, now spiky, many times in a minute.
  bool flickers = asks_nothing(now.verdict, now.alert) && asks_nothing(said.verdict, said.alert) &&
                  said.verdict != Verdict::unknown && now.time - said.time < kFlickers;
  if (same || flickers) return false;
  Said before = std::exchange(said, now);
  return now.verdict != Verdict::stable || now.alert || before.verdict != Verdict::unknown;
}

bool FactFilter::is_chosen(const std::string& type) const {
  return choice_.only.empty() || choice_.only.contains(type) || (text_ && type == "lost");
}

bool FactFilter::is_due(MonoTime time, const Subject& of) {
  if (*choice_.samples == Nanos{}) return false;
  auto [at, is_new] = printed_.try_emplace(of, time);
  if (!is_new && time - at->second < *choice_.samples) return false;
  at->second = time;
  return true;
}

void FactFilter::forget(TaskId task, std::uint64_t inode) {
  auto at = printed_.lower_bound({task, inode, {}, 0});
  while (at != printed_.end() && std::get<0>(at->first) == task && std::get<1>(at->first) == inode)
    at = printed_.erase(at);
}

bool FactFilter::wants(const Fact& fact) {
  bool news = (news_only_ || choice_.samples) && news_.is(fact);
  if (auto* f = std::get_if<ExitFact>(&fact)) forget(f->process.id, 0);
  if (auto* f = std::get_if<ForgottenFact>(&fact)) forget({}, f->cgroup.inode);
  if (!is_chosen(std::string(type_of(fact)))) return false;
  if (news_only_) return news || kind_of(fact) == FactKind::stream;
  bool is_forecast = std::holds_alternative<ForecastFact>(fact);
  if (!choice_.samples || news || (!is_forecast && !is_sample(fact))) return true;
  return std::visit(
      [&](const auto& f) {
        using T = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<T, Sample>)
          return is_due(f.time, {TaskId{}, f.cgroup ? f.cgroup->id.inode : 0, {}, fact.index()});
        else if constexpr (std::is_same_v<T, ProcessSampleFact>)
          return is_due(f.time, {f.process.id, 0, {}, fact.index()});
        else if constexpr (std::is_same_v<T, GpuSample>)
          return is_due(f.time, {task_of(f.process), 0, f.device.value_or(GpuUuid{}), fact.index()});
        else if constexpr (std::is_same_v<T, ForecastFact>)
          return is_due(f.time, {task_of(f.process), f.process || !f.cgroup ? 0 : f.cgroup->id.inode,
                                 f.device.value_or(GpuUuid{}), fact.index()});
        else
          return true;
      },
      fact);
}

bool FactFilter::wants(const std::string& type, std::string_view json) const {
  if (!is_chosen(type)) return false;
  if (!news_only_) return true;
  if (kind_of_type(type) == FactKind::event || kind_of_type(type) == FactKind::stream) return true;
  if (type != "gpu") return false;
  auto line = nlohmann::json::parse(json, nullptr, false);
  auto op = line.is_object() ? line.find("op") : line.end();
  return op != line.end() && op->is_string() && is_news_of_gpu(op->get_ref<const std::string&>());
}

}  // namespace oomcast
