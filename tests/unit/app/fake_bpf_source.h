// Kernel programs that say what a test wants them to: a session without root.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "collect/bpf_source.h"

namespace oomcast::test {

/// What the test and the source share: the source is the session's.
struct FakePrograms {
  std::deque<wire::Record> waiting;
  LostCounts lost = LostCounts(wire::lost_reasons().size(), 0);
  bool exact = false;  // every change of RSS is asked for
  int walks = 0;
  UniqueFd ready{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};

  void send(wire::Record record) {
    waiting.push_back(std::move(record));
    eventfd_write(ready.get(), 1);
  }
};

class FakeBpfSource final : public BpfSource {
 public:
  explicit FakeBpfSource(std::shared_ptr<FakePrograms> programs) : programs_(std::move(programs)) {}

  int fd() const override { return programs_->ready.get(); }
  bool drain(const std::function<void(const wire::Record&)>& sink, std::size_t max_records) override {
    eventfd_t ignored = 0;
    eventfd_read(fd(), &ignored);
    for (; !programs_->waiting.empty() && max_records > 0; --max_records) {
      wire::Record record = std::move(programs_->waiting.front());
      programs_->waiting.pop_front();
      sink(record);
    }
    return !programs_->waiting.empty();
  }
  bool walk_cgroups() override {
    ++programs_->walks;
    return true;
  }
  void sleep_until(MonoTime) override {}
  int pythons() const override { return -1; }
  bool set_exact(bool on) override {
    programs_->exact = on;
    return true;
  }
  bool set_python(std::uint32_t, const std::vector<std::byte>*) override { return true; }
  LostCounts lost() const override { return programs_->lost; }
  std::uint64_t undecodable() const override { return 0; }
  std::uint64_t missed_runs() const override { return 0; }
  void for_each_stall(const std::function<void(std::uint64_t, const wire::Stalls&)>&) const override {}
  const std::vector<ProgramState>& programs() const override { return states_; }

 private:
  std::shared_ptr<FakePrograms> programs_;
  std::vector<ProgramState> states_{{"on_mark_victim", true, ""}};
};

}  // namespace oomcast::test
