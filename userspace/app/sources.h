// Where a tracing run's data comes from on this machine.
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
  std::optional<KernelLog> log;    // nullopt: not asked for, or it may not be read
  std::unique_ptr<BpfSource> bpf;  // nullptr: not asked for
  std::vector<std::string> names;  // as they are told

  using Load = std::function<Result<std::unique_ptr<BpfSource>>(const BpfOptions&)>;
  /// All that the options ask for. Error: with the contract's exit code; without any source of kills, too.
  /// `diagnostics` takes one line per thing that is degraded. `load`: of the kernel programs; a test has its
  /// own.
  static Result<Sources> open(const Options& options,
                              const std::function<void(const std::string&)>& diagnostics,
                              const Load& load = BpfSource::load);
};

}  // namespace oomcast
