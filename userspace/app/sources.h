// The data sources of a tracing run on this machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/kernel_log.h"
#include "app/options.h"
#include "collect/bpf_source.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "collect/roots.h"

namespace oomcast {

struct Sources {
  Roots roots;
  CgroupFs cgroupfs;
  ProcFs procfs;
  std::optional<KernelLog> log;    // nullopt: not requested, or not permitted
  std::unique_ptr<BpfSource> bpf;  // nullptr: not requested
  std::vector<std::string> names;  // as published

  using Load = std::function<Result<std::unique_ptr<BpfSource>>(const BpfOptions&)>;
  /// Opens all that the options ask for. Error: with the contract's exit code; also if no source of kills is
  /// left. `diagnostics` takes one line per degraded feature. `load` loads the kernel programs; tests replace
  /// it.
  static Result<Sources> open(const Options& options,
                              const std::function<void(const std::string&)>& diagnostics,
                              const Load& load = BpfSource::load);
};

}  // namespace oomcast
