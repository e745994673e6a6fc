#include "app/pythons.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kFrom = MiB(8);  // an idle interpreter
constexpr int kMaxLooks = 10;    // in a second
constexpr std::size_t kMaxKnown = 65536;

}  // namespace

void Pythons::on_sample(const TaskId& id, Bytes resident, MonoTime now) {
  if (resident >= kFrom) look_at(id, now);
}

void Pythons::look_at(const TaskId& id, MonoTime now) {
  if (known_.contains(id)) return;
  if (now - second_ >= 1s) {
    second_ = now;
    looked_ = 0;
  }
  if (looked_ >= kMaxLooks || !reader_.ask(Reader::What::python, id, now)) return;
  ++looked_;
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.insert(id);
}

void Pythons::on_answer(const Reader::Answer& answer) {
  if (answer.dropped) known_.erase(answer.id);
  // Forgotten meanwhile: what was found is of another program.
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
