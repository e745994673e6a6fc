#include "parse/oom_reports.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "parse/log_wrapping.h"
#include "parse/oom_kill_lines.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;
constexpr unsigned kFirstLines = 8;
// Records of one boot are printed in order, but for what CPUs do at the same time.
constexpr Nanos kDisorder = std::chrono::seconds(1);

// A serial console takes seconds for a report.
constexpr Nanos kSlowestConsole = std::chrono::seconds(60);
constexpr std::size_t kMaxHosts = 64;
constexpr std::size_t kShown = 160;  // of a line that is not read

// Every line that begins a report has one of these. (`oom_score_adj` heads the table of a report whose
// beginning is lost.)
bool could_begin(std::string_view raw) {
  for (std::string_view word : {"ill", "emory", "oom_"})
    if (memmem(raw.data(), raw.size(), word.data(), word.size())) return true;
  // What is not UTF-8, journald gives as a list of numbers.
  constexpr std::string_view kText = "\"MESSAGE\"";
  const void* at = memmem(raw.data(), raw.size(), kText.data(), kText.size());
  if (!at) return false;
  raw.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(at) - raw.data()) + kText.size());
  raw.remove_prefix(std::min(raw.find_first_not_of(" :"), raw.size()));
  return raw.starts_with('[');
}

bool is_first_line_alone(const OomDump& dump) {
  return dump.invoked && !dump.trigger_tid && !dump.constraint && !dump.memcg_task && !dump.chosen &&
         !dump.no_victim && dump.usage.empty() && dump.stats.empty() && dump.tasks.empty() &&
         dump.victims.empty() && dump.reaped.empty();
}

}  // namespace

OomReports::Kernel::Kernel(std::string name)
    : host(std::move(name)), parser([] {
        OomLogLimits limits;
        limits.unfinished = kSlowestConsole;
        limits.lone_lines = true;
        return limits;
      }()) {}

// More hosts than that are taken for one.
OomReports::Kernel& OomReports::kernel_of(const std::optional<std::string>& host) {
  if (kernels_.empty()) kernels_.emplace_back("");
  if (!host) return kernels_.front();
  auto known = std::ranges::find(kernels_, *host, &Kernel::host);
  if (known != kernels_.end()) return *known;
  return kernels_.size() > kMaxHosts ? kernels_.front() : kernels_.emplace_back(*host);
}

bool OomReports::idle() const {
  return std::ranges::all_of(kernels_, [](const Kernel& kernel) { return kernel.parser.idle(); });
}

void OomReports::end_boot(Kernel& kernel) {
  collect(kernel, kernel.parser.finish());
  kernel.last.reset();
}

void OomReports::collect(Kernel& kernel, std::vector<OomDump> dumps) {
  for (OomDump& dump : dumps) {
    has_kills_ = has_kills_ || !dump.victims.empty();
    LoggedOom& found = found_.emplace_back();
    if (kernel.since_boot) found.since_boot = dump.time.kill ? dump.time.kill : dump.time.first;
    found.wall = dump.wall;
    found.boot_id = kernel.boot_id;
    found.host = kernel.host;
    found.dump = std::move(dump);
  }
}

bool OomReports::feed(const LogPrefix& prefix, const LogLine& line) {
  Kernel& kernel = kernel_of(prefix.host);
  bool other_clock = line.time && prefix.since_boot.has_value() != kernel.since_boot;
  bool backwards = line.time && kernel.last && *kernel.last - *line.time > kDisorder;
  bool other_boot = prefix.boot_id && prefix.boot_id != kernel.boot_id;
  if (other_clock || backwards || other_boot) end_boot(kernel);
  if (line.time) {
    kernel.since_boot = prefix.since_boot.has_value();
    kernel.last = std::max(kernel.last.value_or(*line.time), *line.time);
  }
  if (prefix.boot_id) kernel.boot_id = prefix.boot_id;
  bool told = false;
  LogLine one = line;
  std::string_view rest = line.text;
  do {
    one.text = take_kill_sentence(rest);
    one.cut = line.cut && rest.empty();
    told = !kernel.parser.feed(one).empty() || told;
  } while (!rest.empty());
  if (told && !prefix.kernel) ++counts_.others;
  collect(kernel, kernel.parser.take_finished());
  return told || kernel.parser.waits_for_rest();
}

// A collector's record may be a whole report.
bool OomReports::feed_lines(const LogPrefix& prefix, LogLine line) {
  if (!prefix.wrapped || line.text.find('\n') == npos) return feed(prefix, line);
  std::string text(line.text);
  std::string_view rest = text, piece;
  LogLineReader inner;
  bool told = false;
  while (next_line(rest, piece)) {
    LogLine one;
    LogPrefix own = inner.read(piece, line.cut && rest.empty(), one);
    if (!own.kernel) continue;
    if (!one.time) one.time = line.time;
    if (!one.wall) one.wall = line.wall;
    own.host = prefix.host;
    if (!own.since_boot && one.time == line.time) own.since_boot = prefix.since_boot;
    told = feed(own, one) || told;
  }
  return told;
}

void OomReports::feed_first() {
  std::string first = *std::exchange(first_, std::nullopt);
  LogLine line{.time = {}, .text = first, .caller = {}, .continuation = false, .cut = first_cut_};
  if (!feed({}, line)) note_unread(first, {});
}

void OomReports::note_unread(std::string_view raw, const LogPrefix& prefix) {
  if (!prefix.kernel || !speaks_of_kill(raw) || other_killer_in(raw) || counts_.unread++ > 0) return;
  counts_.first_unread = raw.substr(0, kShown);
}

void OomReports::note_other(std::string_view raw, const LogLine& line) {
  bool speaks = speaks_of_kill(raw) || whole_sentence_in(raw);
  if (!speaks && !parse_oom_line(line.text, line.cut)) return;
  ++counts_.others;
  if (speaks && counts_.first_other.empty()) counts_.first_other = raw.substr(0, kShown);
}

// A mail: its lines are broken and each "=" is "=3D", until one is not.
bool OomReports::take_quoted_printable(std::string_view raw, bool cut) {
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  auto decoded = from_quoted_printable(raw);
  if (!decoded || begun_.size() + decoded->text.size() > kLongestLine) {
    quoted_printable_ = false;
    end_begun(true);
    return false;
  }
  begun_ += decoded->text;
  if (!decoded->goes_on || cut) end_begun(cut);
  return true;
}

void OomReports::end_begun(bool cut) {
  std::string whole = std::exchange(begun_, {});
  if (!whole.empty()) physical_line(whole, cut, could_begin(whole));
}

// Only of a file that is one line, "\r" ends lines: in another one it is a part of what a process wrote, or
// of a cgroup's name, and what stands behind it may be made to look like the kernel's.
void OomReports::line(std::string_view raw, bool cut) {
  while (raw.ends_with("\r\r")) raw.remove_suffix(1);
  std::size_t end = raw.find('\r');
  if (counts_.lines == 0 && !only_ && !cut && end != npos && end + 1 < raw.size()) {
    only_ = raw;
    return;
  }
  if (auto first = std::exchange(only_, std::nullopt)) whole_line(*first, false);
  whole_line(raw, cut);
}

void OomReports::end_only() {
  auto only = std::exchange(only_, std::nullopt);
  if (!only) return;
  std::string_view rest = *only;
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find('\r'), rest.size());
    whole_line(rest.substr(0, end), false);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void OomReports::whole_line(std::string_view raw, bool cut) {
  bool could = could_begin(raw);
  quoted_printable_ = quoted_printable_ || (could && is_quoted_printable(raw));
  if (!quoted_printable_ || !take_quoted_printable(raw, cut)) physical_line(raw, cut, could);
}

void OomReports::physical_line(std::string_view raw, bool cut, bool could) {
  ++counts_.lines;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (counts_.lines == 1 && raw.starts_with(byte_order_mark)) raw.remove_prefix(byte_order_mark.size());
  const OtherKiller* killer = other_killer_in(raw);
  other_in_line_ = killer != nullptr;
  others_.look_for_choice(raw);
  unwrapper_.line(raw, cut, could || !idle() || killer, *this);
  // In a record without a text a member may be the sentence ("OOMKilled": true).
  if (killer && !others_.has_said(*killer) && !other_kill_in(raw, *killer)) others_.note(raw, {});
}

void OomReports::plain(std::string_view raw, bool cut) {
  shows_writer_ = shows_writer_ && raw.empty();
  if (!(counts_.lines <= kFirstLines || !idle() || other_in_line_ || could_begin(raw)))
    return reader_.skip(raw);
  LogLine line;
  LogPrefix prefix = reader_.read(raw, cut, line);
  has_prefixes_ = has_prefixes_ || prefix.any;
  // Mail programs leave a stamp alone in its line, if no more fits.
  bool alone = std::exchange(alone_, prefix.any && prefix.kernel && trim(line.text).empty());
  std::uint64_t noted = others_.noted();
  bool inside = (!prefix.any || prefix.inside) && LogUnwrapper::inside_line(raw, *this);
  if (other_in_line_ && others_.noted() == noted) others_.note(raw, prefix);
  if (inside) return;
  if (!prefix.kernel) return note_other(raw, line);
  if (!prefix.any && !prefix.indent && !prefix.inside) {
    if (has_prefixes_) {
      // Mail programs break lines: the rest belongs to what has begun.
      bool goes_on = alone || kernel_of(last_prefix_.host).parser.waits_for_rest();
      bool is_rest = goes_on && !line.text.empty();
      if (!is_rest) return note_unread(raw, prefix);
      line.continuation = line.broken = true;
      line.time = last_prefix_.since_boot;
      if (!line.time && last_prefix_.wall) line.time = last_prefix_.wall->since_epoch;
      feed(last_prefix_, line);
      return;
    }
    if (counts_.lines == 1 && !first_) {
      first_ = line.text;
      first_cut_ = cut;
      return;
    }
    if (first_) {
      // A first line may be the rest of one that was cut; with another like it, the log is one without
      // prefixes.
      feed_first();
    }
  }
  first_.reset();
  if (prefix.any) last_prefix_ = prefix;
  if (!feed_lines(prefix, line)) note_unread(raw, prefix);
}

void OomReports::text(std::string_view text, bool cut, const Beside& beside) {
  // A record of the journal is one of the kernel's, which may have several lines.
  if (!beside.prefix.wrapped) return text_line(text, cut, beside);
  std::string_view rest = text, line;
  while (next_line(rest, line)) text_line(line, cut && rest.empty(), beside);
}

void OomReports::text_line(std::string_view text, bool cut, const Beside& beside) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  LogLine line;
  LogPrefix prefix = reader_.read_beside(text, cut, beside, line);
  has_prefixes_ = has_prefixes_ || line.time;  // else a process's name may have a record's form
  others_.note(text, prefix);
  if (!prefix.kernel) return note_other(text, line);
  first_.reset();
  shows_writer_ = shows_writer_ && prefix.shows_writer;
  last_prefix_ = prefix;
  if (!feed_lines(prefix, line)) note_unread(text, prefix);
}

void OomReports::record(const KmsgRecord& record) {
  ++counts_.lines;
  auto line = line_of(record);
  if (!line) {
    if (parse_oom_line(record.text)) ++counts_.others;
    return;
  }
  LogPrefix prefix;
  prefix.since_boot = record.since_boot;
  feed(prefix, *line);
}

std::vector<LoggedOom> OomReports::take() {
  return std::exchange(found_, {});
}

std::vector<LoggedOom> OomReports::finish() {
  end_only();
  end_begun(true);
  unwrapper_.finish(*this);
  if (first_) feed_first();
  counts_.lost_dumps = 0;
  for (Kernel& kernel : kernels_) {
    end_boot(kernel);
    counts_.lost_dumps += kernel.parser.lost_dumps();
    if (kernel.parser.given_up() && counts_.unread == 0)
      counts_.first_unread = kernel.parser.first_given_up().substr(0, kShown);
    counts_.unread += kernel.parser.given_up();
  }
  // A log of first lines alone has no kills; in one with kills, a first line at the end is where it was cut.
  if (has_kills_ && !found_.empty() && is_first_line_alone(found_.back().dump)) {
    found_.pop_back();
    counts_.ends_in_report = true;
  }
  return take();
}

}  // namespace oomcast
