#include "app/flag_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>

namespace oomcast {
namespace {

Result<Bytes> size_of(const std::string& text, Bytes min) {
  auto size = parse_size(text);
  if (size && *size < min) return Error::usage(fmt::format("{}M is the least", min.count >> 20));
  return size;
}

std::string names_of(std::span<const FormatName> known) {
  std::string out;
  for (const FormatName& each : known) out += fmt::format("{}{}", out.empty() ? "" : ", ", each.name);
  return out;
}

// ".html" for "a/b.html"; empty: no extension.
std::string ending_of(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size()) return "";
  bool date_or_number =
      std::ranges::all_of(name.substr(dot + 1), [](unsigned char c) { return std::isdigit(c); });
  return date_or_number ? "" : name.substr(dot);
}

}  // namespace

Result<Nanos> read_interval(const std::string& text) {
  constexpr Nanos kShortest = std::chrono::milliseconds(50);
  auto interval = parse_duration(text);
  if (interval && *interval < kShortest) return Error::usage("50ms is the shortest");
  return interval;
}

Result<Bytes> read_run_memory(const std::string& text) {
  return size_of(text, MiB(1));
}

Result<Bytes> read_store_size(const std::string& text) {
  return size_of(text, MiB(8));
}

Result<Bytes> read_limit(const std::string& text) {
  auto limit = parse_size(text);
  if (limit && *limit == Bytes{}) return Error::usage("0 is no limit");
  return limit;
}

Result<ColorChoice> read_color(const std::string& text) {
  if (text == "auto") return ColorChoice::automatic;
  if (text == "always") return ColorChoice::always;
  if (text == "never") return ColorChoice::never;
  return Error::usage(fmt::format("'{}' is none of auto, always, never", text));
}

Result<Shell> read_shell(const std::string& text) {
  if (text == "bash") return Shell::bash;
  if (text == "zsh") return Shell::zsh;
  if (text == "fish") return Shell::fish;
  return Error::usage(fmt::format("'{}' is none of bash, zsh, fish", text));
}

Result<int> read_signal(const std::string& text) {
  if (auto signal = parse_signal(text)) return *signal;
  return Error::usage(fmt::format("'{}' is no signal; write USR1, SIGUSR1 or 10", text));
}

Result<WallTime> read_since(const std::string& text, WallTime now) {
  if (auto ago = parse_duration(text)) return now - *ago;
  std::tm day{};
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &day);
  day.tm_isdst = -1;
  std::time_t at = end && !*end ? std::mktime(&day) : -1;
  if (at != -1) return WallTime(std::chrono::seconds(at));
  return Error::usage(fmt::format("'{}' is neither a duration (7d) nor a day (2026-07-13)", text));
}

Result<std::string> read_store(std::string text) {
  if (text.empty()) return Error::usage("give a directory, or none");
  if (text == "none") return std::string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Status read_types(const std::string& text, std::set<std::string>& types) {
  const auto& known = fact_types();
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t end = std::min(text.find(',', at), text.size());
    std::string type = text.substr(at, end - at);
    if (std::ranges::find(known, type) == known.end())
      return Error::usage(
          fmt::format("--only: '{}' is no type of line; there are {}", type, fmt::join(known, ", ")));
    types.insert(type);
    at = end + 1;
  }
  return Ok{};
}

Status read_rule(const std::string& text, AlertOptions& alert) {
  auto rule = parse_alert_rule(text);
  if (!rule) return Error::usage("--alert " + rule.error().message);
  alert.rules.push_back(*std::move(rule));
  return Ok{};
}

Result<Nanos> read_samples(const std::string& text) {
  if (text == "none") return Nanos{};
  auto apart = parse_duration(text);
  if (apart && *apart > Nanos{}) return apart;
  return Error::usage(fmt::format("'{}' is no time between two samples; write 10s, 1m or none", text));
}

Result<MemoryUnit> read_unit(const std::string& text) {
  if (auto unit = memory_unit(text)) return *unit;
  double bytes = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  bool number = code == std::errc{} && end == text.data() + text.size();
  if (number && bytes > 0 && bytes <= 0x1p50) return MemoryUnit{bytes, text + " B"};
  return Error::usage(fmt::format("'{}' is none of B, KiB, MiB, GiB, TiB, and no number of bytes", text));
}

void read_time(const std::string& text, SeriesChoices& choices) {
  bool letters = std::ranges::any_of(text, [](unsigned char c) { return std::isalpha(c) != 0; });
  auto apart = letters ? parse_duration(text) : Result<Nanos>(Error::usage(""));
  if (apart)
    choices.interval = Seconds(*apart).count();
  else
    choices.time = text;
}

Status read_gpu_test(const std::string& text, GpuTestOptions& gpu) {
  GpuSourceOptions::TestFile file{};
  unsigned long long device = 0, inode = 0;
  char kind[16] = {};
  if (text.starts_with("version=")) {
    gpu.version = parse_gpu_driver_version(text);
  } else if (text.starts_with("trace=")) {
    gpu.trace = text.substr(6);
  } else if (text.starts_with("cards=")) {
    gpu.cards = text.substr(6);
  } else if (std::sscanf(text.c_str(), "%15[a-z]=%llu:%llu", kind, &device, &inode) == 3) {
    file.device = device;
    file.inode = inode;
    file.kind = std::string_view(kind) == "uvm" ? wire::GpuCall::Device::uvm : wire::GpuCall::Device::control;
    gpu.files.push_back(file);
  } else {
    return Error::usage("--gpu-test: " + text);
  }
  return Ok{};
}

Result<Format> read_format(const std::string& text, std::span<const FormatName> known) {
  auto at = std::ranges::find(known, text, &FormatName::name);
  if (at != known.end()) return at->format;
  return Error::usage(fmt::format("'{}' is none of {}", text, names_of(known)));
}

Result<Format> format_of_file(const std::string& file, std::span<const FormatName> known) {
  std::string ending = ending_of(file);
  if (ending.empty()) return Format::text;
  auto has = [&](const FormatName& each) { return each.endings.find(ending) != std::string_view::npos; };
  auto at = std::ranges::find_if(known, has);
  if (at != known.end()) return at->format;
  return Error::usage(fmt::format("no format has files that end in '{}': say which by --format ({})", ending,
                                  names_of(known)));
}

}  // namespace oomcast
