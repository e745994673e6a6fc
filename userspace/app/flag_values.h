// Parses the values of flags. The caller puts the flag's name before the message of a Result's error; a
// Status has it already.
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
/// "7d": that long before `now`; "2026-07-13": since local midnight of that day.
Result<WallTime> read_since(const std::string& text, WallTime now);
/// A directory or a file; empty for "none".
Result<std::string> read_store(std::string text);
/// "oom,alert": added to `types`.
Status read_types(const std::string& text, std::set<std::string>& types);
/// Adds one rule to `alert`.
Status read_rule(const std::string& text, AlertOptions& alert);
/// Zero for "none".
Result<Nanos> read_samples(const std::string& text);
Result<MemoryUnit> read_unit(const std::string& text);
/// The name of a time column, or the interval between samples.
void read_time(const std::string& text, SeriesChoices& choices);
/// "control=DEVICE:INODE", "uvm=DEVICE:INODE", "version=535.183.01", "cards=DIRECTORY", "trace=FILE": sets
/// one field of `gpu`.
Status read_gpu_test(const std::string& text, GpuTestOptions& gpu);

/// A format that a command can write.
struct FormatName {
  std::string_view name, endings;  // file name extensions, each with its dot
  Format format;
};
Result<Format> read_format(const std::string& text, std::span<const FormatName> known);
/// Text for a name without an extension.
Result<Format> format_of_file(const std::string& file, std::span<const FormatName> known);

}  // namespace oomcast
