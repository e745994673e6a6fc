#include "collect/series_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "parse/series_blocks.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 64;  // nesting depth
constexpr std::size_t kMostOfDocument = 32 << 20, kMostOfHead = 1 << 20, kUnnamedHead = 40;
constexpr std::size_t kMostSeries = 4096, kMostPoints = 4'000'000, kMostRows = 200'000, kLongestLabel = 200;
constexpr double kSurelyBytesFrom = 16 << 20;

std::string file_word(const std::string& path) {
  return path == "stdin" ? "-" : shell_word(path);
}

std::string label_of(const Json& metric) {
  std::string out;
  for (const auto& [key, value] : metric.items()) {
    if (key == "__name__" || !value.is_string() || out.size() > kLongestLabel) continue;
    out += (out.empty() ? "" : ",") + key + "=" + value.get<std::string>();
  }
  if (out.empty() && metric.contains("__name__") && metric["__name__"].is_string())
    out = metric["__name__"].get<std::string>();
  return out.substr(0, kLongestLabel);
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  auto amount = parse_amount(value.get_ref<const std::string&>(), false);
  return amount ? std::optional(amount->number) : std::nullopt;
}

bool is_pair(const Json& json) {
  return json.is_array() && json.size() == 2 && json[0].is_number() &&
         (json[1].is_string() || json[1].is_number());
}

// What keep() extracts while the library parses a document: points [time, "value"] with the labels of their
// object, and the objects of a list.
struct Parsed {
  struct Point {
    std::uint32_t series;
    double time_s, value;
  };
  std::vector<std::string> names;
  std::vector<Point> points;
  std::deque<std::string> rows;
  bool too_many = false, named_bytes = false;
  bool deep = false;  // rows are nested deeper than in a list
  Json sample;
  std::uint32_t series = 0;
  std::size_t before = 0;  // points of earlier series

  bool keep(int depth, Json::parse_event_t event, Json& json) {
    too_many =
        too_many || points.size() >= kMostPoints || names.size() >= kMostSeries || rows.size() >= kMostRows;
    // Writing and copying a value is recursive: limit the depth; curves are not nested deeply.
    bool begins = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (too_many || (begins && depth > kDeepest)) return false;
    if (event == Json::parse_event_t::array_end && is_pair(json)) {
      double time = json[0].get<double>();
      if (auto value = number_of(json[1]); value && *value >= 0 && *value < 0x1p61 && std::isfinite(time))
        points.push_back({series, time, *value});
      return false;
    }
    if (event != Json::parse_event_t::object_end) return true;
    if (json.contains("metric") && json["metric"].is_object()) {
      if (points.size() == before) return false;
      const Json& metric = json["metric"];
      named_bytes = named_bytes || (metric.contains("__name__") && metric["__name__"].is_string() &&
                                    metric["__name__"].get<std::string>().find("bytes") != std::string::npos);
      names.push_back(label_of(metric));
      ++series;
      before = points.size();
      return false;
    }
    const Json* row = depth > 1 ? deep_row(json) : depth == 1 && !deep ? &json : nullptr;
    if (row && points.empty() && !row->empty()) {
      if (depth > 1 && !deep) rows.clear();  // objects next to the samples
      deep = deep || depth > 1;
      rows.push_back(row->dump(-1, ' ', false, Json::error_handler_t::replace));
      return false;
    }
    return true;
  }

  // A nested sample: from sadf -j, under the names of sar -r, or a hit of Elasticsearch.
  const Json* deep_row(const Json& json) {
    auto of = [&](const char* name) {
      return json.contains(name) && json[name].is_object() ? &json[name] : nullptr;
    };
    if (const Json* source = of("_source")) return source;
    const Json *time = of("timestamp"), *memory = of("memory");
    if (!time || !memory || !time->contains("date") || !time->contains("time") ||
        !(*time)["date"].is_string() || !(*time)["time"].is_string())
      return nullptr;
    bool utc = time->contains("utc") && (*time)["utc"] == 1;
    sample = {{"timestamp", (*time)["date"].get<std::string>() + "T" + (*time)["time"].get<std::string>() +
                                (utc ? "Z" : "")}};
    for (const auto& [name, value] : memory->items()) sample[sar_name(name)] = value;
    return &sample;
  }
};

}  // namespace

Error SeriesFile::cannot(const SeriesProblem& problem) const {
  std::string what = problem.what, columns;
  for (const std::string& name : problem.columns)
    columns += (columns.empty() ? "" : ", ") + escape_for_terminal(name);
  if (!columns.empty()) what += "; the columns are: " + columns;
  if (!problem.flags.empty())
    what += fmt::format("\nTo read it: oomcast replay {} {}", file_word(file_.path()), problem.flags);
  return file_.wrong_at(problem.line, what);
}

Error SeriesFile::runs_backwards(double from, double to) const {
  std::string what = fmt::format("time runs backwards, from {} to {}", from, to);
  if (reader_ && !is_list_ && reader_->stands_alone() && file_.path() != "stdin") {
    std::string file = file_word(file_.path());
    what += fmt::format(
        "\nTo read it, if its newest line is the first: {} | oomcast replay -, with the same options",
        reader_->headed() ? fmt::format("(head -n 1 {0}; tail -n +2 {0} | tac)", file) : "tac " + file);
  }
  return wrong(what);
}

Result<SeriesFile> SeriesFile::open(LineFile file, const SeriesChoices& choices) {
  SeriesFile out(std::move(file));
  out.file_.rewind(true);
  auto head = out.file_.begin(2);
  if (!head) return head.error();
  if (*head == "\xff\xfe" || *head == "\xfe\xff")
    return out.file_.wrong_at(
        1, fmt::format("the file is UTF-16\nTo read it: iconv -f UTF-16 -t UTF-8 {} | oomcast "
                       "replay -",
                       file_word(out.file_.path())));
  if (*head == "\x1f\x8b")
    return out.file_.wrong_at(1, fmt::format("the file is compressed\nTo read it: zcat {} | oomcast replay -",
                                             file_word(out.file_.path())));
  if (head->starts_with('{') || head->starts_with('[')) {
    auto is = out.read_document(choices);
    if (!is) return is.error();
    if (*is) return out;
  }
  if (auto ok = out.guess(choices); !ok) return ok.error();
  return out;
}

// false: the file is not such a document.
Result<bool> SeriesFile::read_document(const SeriesChoices& choices) {
  auto head = file_.begin(1 << 16);
  if (!head) return head.error();
  std::size_t end = head->find('\n');
  bool lines = end != std::string_view::npos && end + 1 < head->size() && (*head)[end + 1] == '{' &&
               Json::accept(head->substr(0, end));
  if (lines) return false;
  auto text = file_.all(kMostOfDocument);
  if (!text) return text.error();
  if (!*text)
    return head->starts_with('{') ? Result<bool>(file_.wrong_at(1, "a JSON document of more than 32 MiB"))
                                  : Result<bool>(false);
  Parsed parsed;
  auto keep = [&](int depth, Json::parse_event_t event, Json& json) {
    return parsed.keep(depth, event, json);
  };
  Json rest = Json::parse(**text, keep, false);
  if (rest.is_discarded() && parsed.points.empty() && parsed.rows.empty()) return false;
  if (!Json::accept(**text)) return false;
  if (parsed.too_many)
    return file_.wrong_at(1, fmt::format("more than {} series, {} points or {} objects", kMostSeries - 1,
                                         kMostPoints - 1, kMostRows - 1));
  if (parsed.points.empty()) {
    rows_ = std::move(parsed.rows);
    is_list_ = !rows_.empty();
    return false;
  }
  Document out;
  if (parsed.names.size() < parsed.series + 1 && parsed.before < parsed.points.size())
    parsed.names.emplace_back();
  out.names = std::move(parsed.names);
  double most = 0;
  for (const Parsed::Point& point : parsed.points) {
    out.points.push_back({point.series, point.time_s, point.value});
    most = std::max(most, point.value);
  }
  std::ranges::stable_sort(out.points, {}, &Document::Point::time_s);
  if (!choices.unit && !parsed.named_bytes && most < kSurelyBytesFrom)
    return file_.wrong_at(
        1, fmt::format("the values have no unit, and are at most {}\nTo read it: oomcast replay {} "
                       "--unit B",
                       most, file_word(file_.path())));
  MemoryUnit unit = choices.unit ? *choices.unit : MemoryUnit{};
  out.unit = unit.bytes;
  out.read_as = fmt::format(
      "Prometheus query_range: time in seconds since 1970, memory is the value, in {}, of {} series",
      describe(unit), out.names.size());
  document_ = std::move(out);
  return true;
}

Status SeriesFile::guess(const SeriesChoices& choices) {
  auto few = static_cast<std::ptrdiff_t>(std::min(rows_.size(), kUnnamedHead));
  std::vector<std::string> head(rows_.begin(), rows_.begin() + few);
  std::size_t bytes = 0, tried = 0;
  bool ended = is_list_;
  auto try_now = [&](bool all) {
    auto guess = SeriesReader::guess(head, choices, all);
    if (guess.reader) reader_ = std::move(guess.reader);
    tried = head.size();
    return guess.problem;
  };
  SeriesProblem problem;
  while (!reader_ && !ended && bytes < kMostOfHead) {
    auto line = file_.next();
    if (!line) return line.error();
    ended = !*line;
    if (ended) break;
    head.emplace_back(**line);
    bytes += head.back().size() + 1;
    bool early = head.size() <= kUnnamedHead;
    if (early && head.size() > 1) (void)try_now(false);
    if (!reader_ && (head.size() == kUnnamedHead || (!early && head.size() >= 2 * tried)))
      problem = try_now(true);
  }
  if (!reader_) problem = try_now(true);
  if (!reader_) return cannot(problem);
  if (is_list_ && rows_.size() > 1) {  // may be newest first, as from Elasticsearch
    SeriesReader probe = *reader_;
    std::vector<SeriesPoint> first, last;
    (void)probe.line(rows_.front(), first);
    (void)probe.line(rows_.back(), last);
    if (!first.empty() && !last.empty() && last[0].time_s < first[0].time_s) std::ranges::reverse(rows_);
  }
  file_.rewind();
  return Ok{};
}

Result<bool> SeriesFile::next(std::vector<SeriesPoint>& out) {
  if (document_) {
    constexpr std::size_t kAtOnce = 1024;
    bool more = document_->given < document_->points.size();
    for (std::size_t n = 0; n < kAtOnce && document_->given < document_->points.size(); ++n) {
      const Document::Point& from = document_->points[document_->given++];
      SeriesPoint point;
      if (document_->names.size() > 1) point.name = document_->names[from.series];
      point.time_s = from.time_s;
      point.used = Bytes{std::llround(from.value * document_->unit)};
      out.push_back(std::move(point));
    }
    return more;
  }
  std::string row;
  std::optional<std::string_view> text;
  if (!is_list_) {
    auto line = file_.next();
    if (!line) return line.error();
    text = *line;
  } else if (!rows_.empty()) {
    row = std::move(rows_.front());
    rows_.pop_front();
    text = row;
  }
  if (!text) {
    if (!any_) return wrong("there is no sample below the header");
    return false;
  }
  std::size_t before = out.size();
  if (auto why = reader_->line(*text, out)) return wrong(*why);
  any_ = any_ || out.size() > before;
  return true;
}

}  // namespace oomcast
