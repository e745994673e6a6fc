#include "app/pythons.h"

#include <algorithm>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kFrom = MiB(8);  // an idle interpreter
constexpr int kPerUser = 50, kPerLook = 5;
constexpr Nanos kLostAfter = 5s;  // for a missing answer
constexpr std::size_t kMaxKnown = 65536, kMaxUsers = 1024, kMaxWaiting = 1024;
constexpr std::ptrdiff_t kMaxOfUser = 64;

}  // namespace

void Pythons::on_sample(const ProcessRef& process, Bytes resident, MonoTime now) {
  if (resident >= kFrom) look_at(process.id, process.uid, now);
}

void Pythons::look_at(const TaskId& id, std::optional<std::uint32_t> uid, MonoTime now) {
  if (known_.contains(id) || waiting_.size() >= kMaxWaiting) return;
  auto of_user = [uid](const Wanted& w) { return w.uid == uid; };
  if (std::ranges::count_if(waiting_, of_user) >= kMaxOfUser) return;  // it will be sampled again
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.insert(id);
  waiting_.push_back({id, uid, now});
  advance(now);
}

void Pythons::advance(MonoTime now) {
  if (now < next_ || (asked_ && now - asked_->when < kLostAfter)) return;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (auto of_user = next_of_.find(at->uid); of_user != next_of_.end() && now < of_user->second) continue;
    Wanted next = *at;
    waiting_.erase(at);
    if (!known_.contains(next.id)) return;  // exited
    next.when = now;
    if (reader_.ask(Reader::What::python, next.id, now))
      asked_ = next;
    else
      known_.erase(next.id);
    return;
  }
}

void Pythons::on_answer(const Reader::Answer& answer, MonoTime now) {
  if (asked_ && asked_->id == answer.id) {
    next_ = now + kPerLook * answer.took;
    if (next_of_.size() >= kMaxUsers)
      std::erase_if(next_of_, [now](const auto& n) { return n.second <= now; });
    if (next_of_.size() < kMaxUsers || next_of_.contains(asked_->uid))
      next_of_[asked_->uid] = now + kPerUser * answer.took;
    asked_.reset();
  }
  if (answer.dropped) known_.erase(answer.id);
  // Forgotten meanwhile: the answer is about another program.
  if (answer.python.empty() || !known_.contains(answer.id)) return;
  if (bpf_.set_python(answer.id.tgid, &answer.python))
    pythons_.insert(answer.id);
  else
    ++no_room_;
}

void Pythons::forget(const TaskId& id) {
  known_.erase(id);
  if (pythons_.erase(id)) (void)bpf_.set_python(id.tgid, nullptr);
}

}  // namespace oomcast
