// Lines of other tools' tables and logs, as fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oomcast {

using Fields = std::vector<std::string_view>;

/// CSV: fields may be quoted; a quoted one has no line break here, and "" in it is one quote. The fields
/// point into `line`, or into `unquoted`. Returns what is wrong with the line; nullopt: nothing.
std::optional<std::string> split_csv(std::string_view line, char separator, Fields& fields,
                                     std::string& unquoted);

/// What separates the columns of a line.
enum class Split : std::uint8_t {
  comma,
  semicolon,
  tab,
  blanks,  // one or more; a date and its time of day, and a time and its AM, are one field
  wide,    // two or more, or a tab: names and values of several words
};
std::string_view describe(Split split);
/// As split_csv.
std::optional<std::string> split_line(std::string_view line, Split split, Fields& fields,
                                      std::string& unquoted);

/// What may separate the columns of this line, the surest first.
std::vector<Split> possible_splits(std::string_view line);
/// The names in a header, without "#" before them.
std::vector<std::string> header_names(std::string_view line, Split split);

/// What is named in a line of a log: "rss=512.3MB", "Memory usage: 12 MiB", `pmem(rss=123, vms=456)`.
struct NamedValue {
  std::string name;
  std::string_view value;
};
std::vector<NamedValue> named_values(std::string_view line);

/// The values of a JSON object in a line, by the names that lead to them: "mem.rss_mb". Empty: there is none.
std::vector<std::pair<std::string, std::string>> json_values(std::string_view line);

/// "200.0MiB / 512MiB" in a line of docker stats without its header, and the container's name before it.
struct UsageOfLimit {
  std::string_view name, usage_and_limit;
};
std::optional<UsageOfLimit> usage_of_limit(std::string_view line);

/// Without the sequences that clear a screen or colour it.
std::string without_escapes(std::string_view line);

}  // namespace oomcast
