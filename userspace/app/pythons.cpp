#include "app/pythons.h"

#include "blame/python.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kFrom = MiB(8);  // an idle interpreter
constexpr int kMostLooks = 10;   // in a second
constexpr std::size_t kMostKnown = 65536;

}  // namespace

void Pythons::on_sample(const TaskId& id, Bytes resident, MonoTime now) {
  if (resident < kFrom || known_.contains(id)) return;
  if (now - second_ >= 1s) {
    second_ = now;
    looked_ = 0;
  }
  if (++looked_ > kMostLooks) return;
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert(id);
  ProcessMemory memory(roots_, id.tgid);
  auto maps = memory.maps();
  if (!maps) return;
  auto found = find_python(memory, *maps).python;
  if (!found) return;
  auto layout = wire::encode(found->layout, found->objects);
  bpf_.set_python(id.tgid, &layout);
  pythons_.insert(id);
}

void Pythons::forget(const TaskId& id) {
  known_.erase(id);
  if (pythons_.erase(id)) bpf_.set_python(id.tgid, nullptr);
}

}  // namespace oomcast
