// The commands. Each returns the process's exit code, or an Error with it.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace oomcast {

Result<int> watch(const Options& options);
Result<int> trace(const Options& options);
Result<int> run(const Options& options);
Result<int> record(const Options& options);
/// Replays a recording or a CSV series.
Result<int> replay(const Options& options);
Result<int> report(const Options& options);
Result<int> compare(const Options& options);
/// All known kills, and how often they recur.
Result<int> history(const Options& options);
/// What is growing: processes, stacks, Python lines.
Result<int> blame(const Options& options);
/// The service.
Result<int> run_daemon(const Options& options);
Result<int> doctor(const Options& options);
/// Prints the completion script of a shell.
Result<int> completion(const Options& options);

/// Runs the command that the options name.
Result<int> execute(const Options& options);

}  // namespace oomcast
