// The commands. Each returns the process's exit code, or an Error with it.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace oomcast {

Result<int> watch(const Options& options);
Result<int> trace(const Options& options);
Result<int> run(const Options& options);
Result<int> record(const Options& options);
/// Of a recording, or of a series in CSV.
Result<int> replay(const Options& options);
Result<int> report(const Options& options);
Result<int> compare(const Options& options);
/// All kills that are known, and how often they come back.
Result<int> history(const Options& options);
/// What is growing: processes, stacks, Python lines.
Result<int> blame(const Options& options);
/// The service.
Result<int> run_daemon(const Options& options);
Result<int> doctor(const Options& options);
/// Prints what lets a shell complete commands and flags.
Result<int> completion(const Options& options);

/// The one that the options name.
Result<int> execute(const Options& options);

}  // namespace oomcast
