#include "parse/kmsg_record.h"

#include <charconv>

#include "parse/text.h"

namespace oomcast {
namespace {

bool take_char(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::string_view take_until(std::string_view& text, char stop) {
  std::string_view out = text.substr(0, text.find(stop));
  text.remove_prefix(out.size());
  return out;
}

std::optional<char> escaped_byte(std::string_view text) {
  unsigned value = 0;
  if (text.size() < 4 || text[0] != '\\' || text[1] != 'x') return std::nullopt;
  const char* digits = text.data() + 2;
  auto [end, err] = std::from_chars(digits, digits + 2, value, 16);
  if (err != std::errc{} || end != digits + 2) return std::nullopt;
  return static_cast<char>(static_cast<unsigned char>(value));
}

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto byte = escaped_byte(text);
    out += byte ? *byte : text.front();
    text.remove_prefix(byte ? 4 : 1);
  }
  return out;
}

// The fields after the time stamp: flags, then named ones, of which kernels may add more.
bool take_fields(std::string_view& text, KmsgRecord& record) {
  if (!take_char(text, ',') || text.find(';') == std::string_view::npos) return false;
  std::string_view fields = take_until(text, ';');
  std::string_view flags = take_until(fields, ',');
  record.continuation = flags.find_first_of("c+") != std::string_view::npos;
  while (take_char(fields, ',')) {
    std::string_view field = take_until(fields, ',');
    constexpr std::string_view key = "caller=";
    if (field.starts_with(key)) record.caller = field.substr(key.size());
  }
  return take_char(text, ';');
}

}  // namespace

std::optional<KmsgRecord> parse_kmsg_record(std::string_view raw) {
  auto prefix = take_number<std::uint64_t>(raw);
  auto seq = prefix && take_char(raw, ',') ? take_number<std::uint64_t>(raw) : std::nullopt;
  auto usec = seq && take_char(raw, ',') ? take_number<std::uint64_t>(raw) : std::nullopt;
  constexpr std::uint64_t max_usec = INT64_MAX / 1000;
  KmsgRecord record;
  if (!usec || *usec > max_usec || !take_fields(raw, record)) return std::nullopt;
  record.level = static_cast<std::uint8_t>(*prefix & 7);
  // Out of range is not the kernel's: 255 stands for any facility that does not fit.
  record.facility = static_cast<std::uint8_t>((*prefix >> 3) > 255 ? 255 : *prefix >> 3);
  record.seq = *seq;
  record.since_boot = Nanos(static_cast<std::int64_t>(*usec * 1000));
  record.cut = raw.find('\n') == std::string_view::npos;
  record.text = unescape(raw.substr(0, raw.find('\n')));
  return record;
}

}  // namespace oomcast
