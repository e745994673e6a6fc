#include "collect/csv_series.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kChunk = 1 << 18;
constexpr std::size_t kLongestRow = 1 << 20;
constexpr std::size_t kMaxFields = 4096;
constexpr double kMaxTime = 4.6e9;   // s: nanoseconds between any two fit into 63 bits
constexpr double kNoLimit = 0x1p60;  // v1 writes its "no limit" as a number

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

Error CsvSeries::wrong(std::string_view what) const {
  return Error::usage(fmt::format("{}:{}: {}", escape_for_terminal(path_), line_, what));
}

Result<CsvSeries> CsvSeries::open(const std::string& path) {
  CsvSeries out;
  out.path_ = path == "-" ? "stdin" : path;
  if (path == "-") {
    out.fd_ = STDIN_FILENO;
  } else {
    auto file = open_input(path);
    if (!file) {
      bool forbidden = errno == EACCES;
      std::string why = fmt::format("{}: {}", escape_for_terminal(path), file.error().message);
      return forbidden ? Error::forbidden(std::move(why)) : Error::usage(std::move(why));
    }
    out.file_ = *std::move(file);
    out.fd_ = out.file_.get();
  }
  if (auto ok = out.read_header(); !ok) return ok.error();
  return out;
}

bool CsvSeries::would_wait() const {
  if (ended_ || buffer_.find('\n', begin_) != std::string::npos) return false;
  pollfd readable = {fd_, POLLIN, 0};
  return poll(&readable, 1, 0) == 0;
}

Result<std::optional<std::string_view>> CsvSeries::read_line() {
  std::size_t scanned = begin_;
  for (;;) {
    std::size_t end = buffer_.find('\n', scanned);
    if (end == std::string::npos && !ended_) {
      scanned = buffer_.size() - begin_;
      buffer_.erase(0, begin_);
      begin_ = 0;
      if (buffer_.size() > kLongestRow) {
        ++line_;
        return wrong("the line is longer than 1 MiB: this is no CSV series");
      }
      std::size_t have = buffer_.size();
      buffer_.resize(have + kChunk);
      ssize_t got;
      do got = read(fd_, buffer_.data() + have, kChunk);
      while (got < 0 && errno == EINTR);
      if (got < 0) return Error::from_errno("reading " + escape_for_terminal(path_));
      buffer_.resize(have + static_cast<std::size_t>(got));
      ended_ = got == 0;
      continue;
    }
    if (end == std::string::npos && begin_ == buffer_.size()) return std::optional<std::string_view>();
    std::string_view line(buffer_.data() + begin_,
                          (end == std::string::npos ? buffer_.size() : end) - begin_);
    begin_ = end == std::string::npos ? buffer_.size() : end + 1;
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return std::optional(line);
  }
}

// Fields may be quoted; a quoted one has no line break here, and "" in it is one quote.
Status CsvSeries::split(std::string_view line) {
  fields_.clear();
  if (line.find('"') == std::string_view::npos) {
    for (std::size_t from = 0; from <= line.size();) {
      std::size_t end = std::min(line.find(',', from), line.size());
      fields_.push_back(line.substr(from, end - from));
      if (fields_.size() > kMaxFields) return wrong(fmt::format("more than {} fields", kMaxFields));
      from = end + 1;
    }
    return Ok{};
  }
  unquoted_.clear();
  unquoted_.reserve(line.size());  // the fields point into it
  for (std::size_t at = 0; at <= line.size();) {
    std::size_t from = unquoted_.size();
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) return wrong("a quote is not closed");
        if (line[at] != '"') {
          unquoted_ += line[at];
        } else if (at + 1 < line.size() && line[at + 1] == '"') {
          unquoted_ += line[at++];
        } else {
          ++at;
          break;
        }
      }
      if (at < line.size() && line[at] != ',') return wrong("text follows a quoted field");
    } else {
      for (; at < line.size() && line[at] != ','; ++at) unquoted_ += line[at];
    }
    fields_.emplace_back(unquoted_.data() + from, unquoted_.size() - from);
    if (fields_.size() > kMaxFields) return wrong(fmt::format("more than {} fields", kMaxFields));
    ++at;
  }
  return Ok{};
}

Status CsvSeries::read_header() {
  auto line = read_line();
  if (!line) return line.error();
  if (!*line) {
    line_ = 1;
    return wrong("the file is empty: a header line with time_s and used_bytes is expected");
  }
  std::string_view header = **line;
  if (header.substr(0, 3) == "\xef\xbb\xbf") header.remove_prefix(3);
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
  std::string_view field = fields_[static_cast<std::size_t>(column)];
  if (field.empty()) return std::optional<Bytes>();
  auto value = number(field);
  if (!value) return wrong(fmt::format("{} is '{}', which is no number", name, shown(field)));
  if (*value < 0) return wrong(fmt::format("{} is negative: {}", name, shown(field)));
  if (*value > 0x1p61) return wrong(fmt::format("{} is more than 2 EiB: {}", name, shown(field)));
  return std::optional(Bytes{std::llround(*value)});
}

Result<std::optional<CsvRow>> CsvSeries::next() {
  for (;;) {
    auto line = read_line();
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
    std::string_view time = fields_[static_cast<std::size_t>(columns_.time)];
    auto seconds = number(time);
    if (!seconds) return wrong(fmt::format("time_s is '{}', which is no number", shown(time)));
    if (std::abs(*seconds) > kMaxTime) return wrong(fmt::format("time_s is out of range: {}", shown(time)));
    if (any_ && *seconds < last_time_)
      return wrong(fmt::format("time runs backwards, from {} to {}", last_time_, *seconds));
    row.time_s = last_time_ = *seconds;
    any_ = true;

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
    if (columns_.limit >= 0 && fields_[static_cast<std::size_t>(columns_.limit)] != "max") {
      auto limit = size(columns_.limit, "limit_bytes");
      if (!limit) return limit.error();
      if (*limit && (*limit)->count == 0) return wrong("limit_bytes is 0");
      if (*limit && (*limit)->as_double() < kNoLimit) row.limit = *limit;
    }
    if (per_process_) {
      std::string_view text = fields_[static_cast<std::size_t>(columns_.pid)];
      std::uint32_t pid = 0;
      auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), pid);
      if (code != std::errc{} || end != text.data() + text.size() || pid == 0)
        return wrong(fmt::format("pid is '{}', which is no process number", shown(text)));
      row.pid = pid;
      if (!row.uss) return wrong("uss_bytes is empty");
    } else if (!row.used) {
      return wrong("used_bytes is empty");
    }
    return std::optional(row);
  }
}

}  // namespace oomcast
