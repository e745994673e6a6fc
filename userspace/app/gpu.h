// Follows the NVIDIA driver as soon as it is loaded; on a machine without one nothing is loaded or attached.
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

/// Without callbacks (all empty); with the driver's current version and device number.
GpuSourceOptions gpu_source_options(const GpuTestOptions& test, const Roots& roots);

class GpuFollower {
 public:
  /// `pythons`: BpfSource::pythons(), to report the Python line of an allocation; -1: not reported.
  GpuFollower(const Options& options, const Roots& roots, MachineModel& model, int pythons);

  /// Checks for the driver, once per interval. True: its calls are traced from now on; poll fd().
  bool find_driver();
  int fd() const { return source_ ? source_->fd() : -1; }
  /// Reads the cards' counters and publishes changes; once per interval.
  void sample(MonoTime now);
  /// As of the last sample, without forecasts.
  std::vector<OverviewCard> cards() const;
  /// See GpuSource; empty while the driver is not traced.
  std::string hook() const { return source_ ? source_->hook() : ""; }
  /// Whether the process has one of the driver's files open now.
  bool uses_driver(std::uint32_t pid) const;
  /// How the cards are followed, for display; empty: they are not.
  std::string tier() const;
  /// Returns whether there was anything. A program that makes calls without end is cut short: the rest waits
  /// for the next call, and the descriptor stays readable.
  bool drain();
  /// Whether the last drain() left records.
  bool has_more() const { return more_calls_; }
  void on_exit(TaskId task);
  /// Calls lost since load.
  std::uint64_t lost() const;
  /// Python lines of allocations lost since load.
  std::uint64_t code_lost() const { return source_ ? source_->code_lost() : 0; }
  /// Page events not counted since load: no room, or invalid.
  std::uint64_t page_events_lost() const;
  /// How often tracing failed although the driver is there; tier() has the reason.
  std::uint64_t failures() const { return failures_; }

 private:
  // An allocation whose Python lines arrive in the next records.
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
  std::string no_pages_;  // why pages are not counted
  std::unique_ptr<GpuXids> xids_;
  std::optional<std::pair<std::uint32_t, std::optional<GpuDriverVersion>>> tried_;  // the last uvm device
  std::uint64_t page_events_lost_ = 0;                                              // of closed sources
  bool more_calls_ = false;
  std::unordered_map<std::uint32_t, WithoutCode> without_code_;  // by thread
  MonoTime next_last_look_{};                                    // rate limit of reads at exit
  std::optional<std::string> failure_;
  std::uint64_t failures_ = 0;
};

}  // namespace oomcast
