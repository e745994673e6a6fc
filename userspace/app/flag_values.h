// The values of flags, read from what was typed. The message of a Result's error stands behind the flag's
// name, that of a Status has it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "app/options.h"

namespace oomcast {

Result<Nanos> read_interval(const std::string& text);
Result<Bytes> read_run_memory(const std::string& text);
Result<Bytes> read_store_size(const std::string& text);
Result<Bytes> read_limit(const std::string& text);
Result<ColorChoice> read_color(const std::string& text);
Result<Shell> read_shell(const std::string& text);
Result<int> read_signal(const std::string& text);
/// "7d": so long before `now`; "2026-07-13": since that day began here.
Result<WallTime> read_since(const std::string& text, WallTime now);
/// A directory, or a file; empty for "none".
Result<std::string> read_store(std::string text);
/// "oom,alert": more of `types`.
Status read_types(const std::string& text, std::set<std::string>& types);
/// One more of `alert`.
Status read_rule(const std::string& text, AlertOptions& alert);
/// Zero for "none".
Result<Nanos> read_samples(const std::string& text);
Result<MemoryUnit> read_unit(const std::string& text);
/// A column, or how far apart the samples are.
void read_time(const std::string& text, SeriesChoices& choices);
/// "control=DEVICE:INODE", "uvm=DEVICE:INODE", "version=535.183.01", "cards=DIRECTORY", "trace=FILE": one
/// more of `gpu`.
Status read_gpu_test(const std::string& text, GpuTestOptions& gpu);

/// One that a command can write.
struct FormatName {
  std::string_view name, endings;  // of a file's name, each with its dot
  Format format;
};
Result<Format> read_format(const std::string& text, std::span<const FormatName> known);
/// Text for a name without an ending.
Result<Format> format_of_file(const std::string& file, std::span<const FormatName> known);

}  // namespace oomcast
