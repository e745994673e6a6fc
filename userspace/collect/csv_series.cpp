#include "collect/csv_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "parse/series_cells.h"
#include "parse/series_split.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr double kMaxTime = 4.6e9;  // s: nanoseconds between any two fit into 63 bits

std::string shown(std::string_view field) {
  std::string text = escape_for_terminal(field.substr(0, 40));
  return field.size() > 40 ? text + "…" : text;
}

std::optional<double> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

bool CsvSeries::is_header(std::string_view line) {
  Fields fields;
  std::string unquoted;
  if (split_csv(line, ',', fields, unquoted)) return false;
  auto there = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](std::string_view field) { return trim(field) == name; });
  };
  return there("time_s") && (there("used_bytes") || (there("pid") && there("uss_bytes")));
}

Result<CsvSeries> CsvSeries::open(const std::string& path) {
  auto file = LineFile::open(path);
  if (!file) return file.error();
  return open(*std::move(file));
}

Result<CsvSeries> CsvSeries::open(LineFile file) {
  CsvSeries out(std::move(file));
  out.file_.rewind();
  if (auto ok = out.read_header(); !ok) return ok.error();
  return out;
}

Status CsvSeries::split(std::string_view line) {
  if (auto why = split_csv(line, ',', fields_, unquoted_)) return wrong(*why);
  return Ok{};
}

Status CsvSeries::read_header() {
  auto line = file_.next();
  if (!line) return line.error();
  if (!*line) {
    return file_.wrong_at(1, "the file is empty: a header line with time_s and used_bytes is expected");
  }
  std::string_view header = **line;
  if (auto ok = split(header); !ok) return ok;
  struct Name {
    std::string_view name;
    int Columns::*column;
  };
  static constexpr Name kNames[] = {{"time_s", &Columns::time},         {"pid", &Columns::pid},
                                    {"used_bytes", &Columns::used},     {"limit_bytes", &Columns::limit},
                                    {"pinned_bytes", &Columns::pinned}, {"anon_bytes", &Columns::anon},
                                    {"file_bytes", &Columns::file},     {"shmem_bytes", &Columns::shmem},
                                    {"kernel_bytes", &Columns::kernel}, {"rss_bytes", &Columns::rss},
                                    {"uss_bytes", &Columns::uss}};
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    std::string_view field = fields_[i];
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
    for (const Name& known : kNames) {
      if (field != known.name) continue;
      if (columns_.*known.column >= 0) return wrong(fmt::format("column {} is there twice", known.name));
      columns_.*known.column = static_cast<int>(i);
    }
  }
  if (columns_.time < 0)
    return wrong(fmt::format("column time_s is missing; the header is '{}'", shown(header)));
  per_process_ = columns_.pid >= 0 && columns_.uss >= 0;
  if (!per_process_ && columns_.used < 0) {
    std::string_view what =
        columns_.pid >= 0 ? "column uss_bytes is missing (there is a pid)" : "column used_bytes is missing";
    return wrong(fmt::format("{}; the header is '{}'", what, shown(header)));
  }
  return Ok{};
}

Result<std::optional<Bytes>> CsvSeries::size(int column, std::string_view name) const {
  if (column < 0) return std::optional<Bytes>();
  std::string_view text = field(column);
  if (text.empty()) return std::optional<Bytes>();
  auto value = number(text);
  if (!value) return wrong(fmt::format("{} is '{}', which is no number", name, shown(text)));
  if (*value < 0) return wrong(fmt::format("{} is negative: {}", name, shown(text)));
  if (*value > 0x1p61) return wrong(fmt::format("{} is more than 2 EiB: {}", name, shown(text)));
  return std::optional(Bytes{std::llround(*value)});
}

Result<double> CsvSeries::time_of(std::string_view text) {
  if (auto seconds = number(text)) return *seconds;
  auto stamp = parse_stamp(text);
  if (!stamp || stamp->kind != StampKind::date)
    return wrong(fmt::format("time_s is '{}', which is no number", shown(text)));
  dates_ = true;
  return stamp->seconds;
}

Status CsvSeries::take_time(CsvRow& row) {
  std::string_view time = field(columns_.time);
  auto seconds = time_of(time);
  if (!seconds) return seconds.error();
  if (std::abs(*seconds) > kMaxTime) return wrong(fmt::format("time_s is out of range: {}", shown(time)));
  if (any_ && *seconds < last_time_)
    return wrong(fmt::format("time runs backwards, from {} to {}", last_time_, *seconds));
  row.time_s = last_time_ = *seconds;
  any_ = true;
  return Ok{};
}

Status CsvSeries::take_sizes(CsvRow& row) const {
  struct Field {
    int column;
    std::string_view name;
    std::optional<Bytes> CsvRow::*to;
  };
  const Field fields[] = {
      {columns_.used, "used_bytes", &CsvRow::used},    {columns_.pinned, "pinned_bytes", &CsvRow::pinned},
      {columns_.anon, "anon_bytes", &CsvRow::anon},    {columns_.file, "file_bytes", &CsvRow::file},
      {columns_.shmem, "shmem_bytes", &CsvRow::shmem}, {columns_.kernel, "kernel_bytes", &CsvRow::kernel},
      {columns_.rss, "rss_bytes", &CsvRow::rss},       {columns_.uss, "uss_bytes", &CsvRow::uss}};
  for (const Field& f : fields) {
    auto value = size(f.column, f.name);
    if (!value) return value.error();
    row.*f.to = *value;
  }
  return Ok{};
}

Status CsvSeries::take_limit(CsvRow& row) const {
  if (columns_.limit < 0 || field(columns_.limit) == "max") return Ok{};
  auto limit = size(columns_.limit, "limit_bytes");
  if (!limit) return limit.error();
  if (*limit && (*limit)->count == 0) return wrong("limit_bytes is 0");
  if (*limit && (*limit)->as_double() < kNoLimitFrom) row.limit = *limit;
  return Ok{};
}

// After take_sizes(): a process's row must have its private memory, any other row the usage.
Status CsvSeries::take_process(CsvRow& row) const {
  if (!per_process_ && !row.used) return wrong("used_bytes is empty");
  if (!per_process_) return Ok{};
  std::string_view text = field(columns_.pid);
  std::uint32_t pid = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (code != std::errc{} || end != text.data() + text.size() || pid == 0)
    return wrong(fmt::format("pid is '{}', which is no process number", shown(text)));
  row.pid = pid;
  if (!row.uss) return wrong("uss_bytes is empty");
  return Ok{};
}

Result<std::optional<CsvRow>> CsvSeries::next() {
  for (;;) {
    auto line = file_.next();
    if (!line) return line.error();
    if (!*line) {
      if (!any_) return wrong("there is no sample below the header");
      return std::optional<CsvRow>();
    }
    if ((*line)->empty()) continue;
    if (auto ok = split(**line); !ok) return ok.error();
    int last =
        std::max({columns_.time, columns_.pid, columns_.used, columns_.limit, columns_.pinned, columns_.anon,
                  columns_.file, columns_.shmem, columns_.kernel, columns_.rss, columns_.uss});
    if (fields_.size() <= static_cast<std::size_t>(last))
      return wrong(fmt::format("{} fields, {} are needed", fields_.size(), last + 1));
    CsvRow row;
    if (auto ok = take_time(row); !ok) return ok.error();
    if (auto ok = take_sizes(row); !ok) return ok.error();
    if (auto ok = take_limit(row); !ok) return ok.error();
    if (auto ok = take_process(row); !ok) return ok.error();
    return std::optional(row);
  }
}

}  // namespace oomcast
