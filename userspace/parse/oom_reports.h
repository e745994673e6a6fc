// The OOM reports of a log file, of journalctl's output, or of /dev/kmsg.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "parse/log_lines.h"
#include "parse/log_unwrapper.h"
#include "parse/oom_log.h"
#include "parse/other_kills.h"

namespace oomcast {

/// A report with when and in which boot it was printed, as far as its log tells.
struct LoggedOom {
  OomDump dump;
  std::optional<Nanos> since_boot;
  std::optional<WallStamp> wall;
  std::optional<std::string> boot_id;
  std::string host;  // as the log names it; empty: it does not
};

/// What was met beside the reports.
struct LogCounts {
  std::uint64_t lines = 0;
  std::uint64_t others = 0;      ///< that user space wrote, though they read like a report's; not believed
  std::uint64_t lost_dumps = 0;  ///< over a limit of OomLogParser
  std::uint64_t unread = 0;      ///< that speak of an OOM kill in a form that is not read here
  std::string first_unread, first_other;
  bool ends_in_report = false;  ///< behind kills, with no more of another report than its first line
};

/// Fed the lines of one log in order, of one host or of several. A boot's end (another boot id, or its clock
/// beginning anew) ends the reports that are open. Lines without a prefix are believed only in a log that has
/// none: `dmesg -t`; and as the rest of one that a mail program has broken.
///
/// Cost: a search for some ten short words in lines that no report is open for, whatever the log's size.
class OomReports : private LogSink {
 public:
  /// `cut`: its newline was missing; what comes next, if anything, is its rest.
  void line(std::string_view raw, bool cut = false);
  /// A record of /dev/kmsg.
  void record(const KmsgRecord& record);

  /// Those that are complete. A stamp without a year needs resolve() when the log has ended.
  std::vector<LoggedOom> take();
  /// The log has ended.
  std::vector<LoggedOom> finish();
  WallStamp resolve(const WallStamp& stamp, WallTime now) const { return reader_.resolve(stamp, now); }

  const LogCounts& counts() const { return counts_; }
  /// Other programs that killed, or only reported it.
  const OtherKills& others() const { return others_; }
  /// Every line so far was a record of journald's (`journalctl -o json`) or of /dev/kmsg, and those of the
  /// reports name the kernel as their writer. Of any other text a user may have written each line, so that
  /// nothing of it is more than a claim: `logger -t kernel` is enough for syslog.
  bool shows_writer() const { return shows_writer_; }

 private:
  /// The kernel of one host.
  struct Kernel {
    explicit Kernel(std::string name);
    std::string host;
    OomLogParser parser;
    std::optional<std::string> boot_id;
    std::optional<Nanos> last;
    bool since_boot = false;  // the clock that the parser is fed
  };
  Kernel& kernel_of(const std::optional<std::string>& host);
  bool idle() const;
  /// Whether it told something, or has begun to.
  bool feed(const LogPrefix& prefix, const LogLine& line);
  bool feed_lines(const LogPrefix& prefix, LogLine line);
  void whole_line(std::string_view raw, bool cut);
  void end_only();
  void physical_line(std::string_view raw, bool cut, bool could_begin);
  void plain(std::string_view raw, bool cut) override;
  void text(std::string_view text, bool cut, const Beside& beside) override;
  void unread(std::string_view piece) override { note_unread(piece, {}); }
  void text_line(std::string_view text, bool cut, const Beside& beside);
  bool take_quoted_printable(std::string_view raw, bool cut);
  void end_begun(bool cut);
  void end_boot(Kernel& kernel);
  void collect(Kernel& kernel, std::vector<OomDump> dumps);
  void feed_first();
  void note_unread(std::string_view raw, const LogPrefix& prefix);
  void note_other(std::string_view raw, const LogLine& line);

  LogUnwrapper unwrapper_;
  LogLineReader reader_;
  std::deque<Kernel> kernels_;  // the first: of lines that name no host
  std::vector<LoggedOom> found_;
  bool has_kills_ = false;
  LogCounts counts_;
  OtherKills others_;
  bool other_in_line_ = false;        // the file's line that is being read has a sentence of another killer
  std::optional<std::string> first_;  // a first line without a prefix: believed if the second has none either
  bool first_cut_ = false;
  bool has_prefixes_ = false;
  bool shows_writer_ = true;
  bool alone_ = false;  // the line before was a kernel's stamp without a text
  bool quoted_printable_ = false;
  std::string begun_;                // a line of it that goes on
  std::optional<std::string> only_;  // the first line, with "\r" in it, while there is no other one
  LogPrefix last_prefix_;
};

}  // namespace oomcast
