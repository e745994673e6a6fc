// Follows the NVIDIA driver from the moment it is there: nothing is loaded or attached on a machine without
// one.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "app/options.h"
#include "base/units.h"
#include "collect/gpu_driver.h"
#include "collect/gpu_pages.h"
#include "collect/gpu_source.h"
#include "collect/gpu_xids.h"
#include "collect/roots.h"
#include "model/machine_model.h"
#include "present/overview.h"

namespace oomcast {

/// Without what is to be told: all callbacks are empty, and the driver's version and number as it is now.
GpuSourceOptions gpu_source_options(const GpuTestOptions& test, const Roots& roots);

class GpuFollower {
 public:
  /// `pythons`: BpfSource::pythons(), so that the Python line of an allocation is told; -1: it is not.
  GpuFollower(const Options& options, const Roots& roots, MachineModel& model, int pythons);

  /// Looks whether the driver is there, once per interval. True: its calls are followed from now on, by fd().
  bool find_driver();
  int fd() const { return source_ ? source_->fd() : -1; }
  /// Reads the cards' counters, and tells what changed; once per interval.
  void sample(MonoTime now);
  /// As of the last sample; without forecasts.
  std::vector<OverviewCard> cards() const;
  /// As GpuSource says; only while it is followed.
  std::string hook() const { return source_ ? source_->hook() : ""; }
  /// Whether the process has one of the driver's files open now.
  bool uses_driver(std::uint32_t pid) const;
  /// How the cards are followed, for a person; empty: they are not.
  std::string tier() const;
  /// Whether there was anything. The calls of programs that make them without end are left for the next time,
  /// and their descriptor stays readable.
  bool drain();
  /// Whether the last drain() left some.
  bool has_more() const { return more_calls_; }
  void on_exit(TaskId task);
  /// Calls that were lost since load.
  std::uint64_t lost() const;
  /// Python lines of allocations that were lost since load.
  std::uint64_t code_lost() const { return source_ ? source_->code_lost() : 0; }
  /// Events of pages that were not counted since load: for want of room, or because they made no sense.
  std::uint64_t page_events_lost() const;
  /// How often it could not be followed although it is there; tier() says why.
  std::uint64_t failures() const { return failures_; }

 private:
  // An allocation whose Python lines are in the next records.
  struct WithoutCode {
    MonoTime time;
    wire::Task task;
    GpuOp op;
  };
  void on_call(const wire::GpuCall& call);
  void on_code(const wire::DyingCode& code);
  void look_for_pages_and_xids();
  void read_pages();

  Roots roots_;
  MachineModel& model_;
  GpuSourceOptions source_options_;
  std::optional<GpuDriverVersion> version_;
  std::string cards_path_;
  bool counters_ = false;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> trace_{nullptr, std::fclose};
  std::unique_ptr<GpuSource> source_;
  std::unique_ptr<GpuPages> pages_;
  std::string no_pages_;  // why not
  std::unique_ptr<GpuXids> xids_;
  std::optional<std::pair<std::uint32_t, std::optional<GpuDriverVersion>>> tried_;  // of which uvm driver
  std::uint64_t page_events_lost_ = 0;  // of those that were closed
  bool more_calls_ = false;
  std::unordered_map<std::uint32_t, WithoutCode> without_code_;  // by thread
  MonoTime next_last_look_{};                                    // at the pages of one that ends
  std::optional<std::string> failure_;
  std::uint64_t failures_ = 0;
};

}  // namespace oomcast
