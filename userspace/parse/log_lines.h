// Splits a line of a log file, written by any program, into its prefix and the text that the kernel printed.
//
// Forms, told by each line's own content:
//   6,1234,5678,-;text                                /dev/kmsg itself
//   [<6>][kern  :info  : ][  123.456789][[ T12]] text dmesg, -r, -x, -d, with CONFIG_PRINTK_CALLER
//   [Fri Nov 21 03:04:05 2026] text                   dmesg -T
//   [Nov21 03:04] text, [  +0.000010] text            dmesg -H
//   2026-11-21T03:04:05,123456+00:00 text             dmesg --time-format iso
//   Nov 21 03:04:05[.123456] host kernel: […] text    syslog, journalctl -o short, -o short-precise
//   2026-11-21T03:04:05.123456+00:00 host kernel: […] text  rsyslog, journalctl -o short-iso
//   2026-11-21 03:04:05[ UTC] [host] kernel: […] text, Fri 2026-11-21 03:04:05 UTC host kernel: text
//   1754970843.123456 host kernel: text, [  123.456789] host kernel: text      journalctl -o short-unix, -o
//   short-monotonic <6>1 2026-11-21T03:04:05Z host kernel - - - text  RFC 5424, with its priority or without
//   Fri Nov 21 03:04:05 2026 kern.err kernel: […] text  OpenWrt
//   [host: ]kern: err: [2026-11-21T03:04:05Z]: text   Talos
//   [Di Nov 21 03:04:05 2026] text                    dmesg -T in another language, and stamps that cannot be
//   read:
//                                                     they cost the time, not the line
//   kernel: […] text
//   text                                              dmesg -t
// and those inside of what log_wrapping.h unwraps, or behind the names and numbers of grep. log_unwrapper.h
// takes lines out of records before.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "parse/oom_log.h"

namespace oomcast {

struct Beside;
struct Fraction;

/// The prefix of a line.
struct LogPrefix {
  bool any = false;    ///< false: the line is text from its first byte
  bool kernel = true;  ///< false: the source names another writer than the kernel, or the line cannot be read
  bool shows_writer = false;  ///< journald's own fields say that the kernel wrote it, which no user can fake
  bool indent = false;        ///< no prefix, but it goes on with the record of the line before
  bool inside = false;        ///< no prefix, but a sentence of the kernel's stands inside of the line
  bool wrapped = false;       ///< out of a string: the text may have several lines
  std::optional<Nanos> since_boot;
  std::optional<WallStamp> wall;
  std::optional<std::string> boot_id;
  std::optional<std::string> host;
};

/// Reads the lines of one file in order. Times of day without a zone are taken as of this machine's zone.
///
/// Stamps without a year get one when the log has ended: lines of one file follow each other, so January
/// behind December is another year, and the last line is at most a year old. Until then `since_epoch` counts
/// in years of its own; resolve() turns it.
class LogLineReader {
 public:
  /// `raw`: without its newline; `cut`: the newline was missing. The views in `line` live until the next
  /// call, or as long as `raw`. Cost: the prefix alone.
  LogPrefix read(std::string_view raw, bool cut, LogLine& line);

  /// Must see every line that is not read, so that no turn of the year is missed. Cost: three bytes.
  void skip(std::string_view raw) { note_month(raw); }
  /// As read(), of a text of a record, which says `beside` of it.
  LogPrefix read_beside(std::string_view text, bool cut, const Beside& beside, LogLine& line);

  /// The time of day of a stamp without a year. `now`: no line is later, but for a day's clock error.
  WallStamp resolve(const WallStamp& stamp, WallTime now) const;

 private:
  // A leap year for each year of the log, so that every date exists in it.
  static constexpr int kYearsApart = 4;

  void note_month(std::string_view raw);
  LogPrefix read_form(std::string_view raw, bool cut, LogLine& line);
  LogPrefix read_wrapped(std::string_view raw, bool cut, LogLine& line);
  std::optional<LogPrefix> read_behind_grep(std::string_view raw, bool cut, LogLine& line);
  std::optional<LogPrefix> read_literal(std::string_view raw, bool cut, LogLine& line);
  std::optional<LogPrefix> read_behind_words(std::string_view raw, bool cut, LogLine& line);
  WallStamp place(std::tm fields, const Fraction& fraction);
  LogPrefix read_kmsg(std::string_view raw, bool cut, LogLine& line);
  /// `nested`: behind a collector's prefix, where no other is looked for.
  bool take_syslog(std::string_view& text, LogPrefix& out, bool nested = false);
  bool is_prefix_behind_host(std::string_view rest, LogPrefix& inner, std::string_view& text);
  bool take_rfc5424(std::string_view& text, LogPrefix& out);
  bool take_talos(std::string_view& text, LogPrefix& out);
  bool take_dmesg(std::string_view& text, LogPrefix& out, LogLine& line);
  bool take_relative(std::string_view& text, LogPrefix& out);
  void take_tag(std::string_view& rest, LogPrefix& out);
  void take_host_of_boot(std::string_view& text, LogPrefix& out);
  void take_marks(std::string_view& text, LogPrefix& out, LogLine& line);

  KmsgRecord kmsg_;
  std::string message_, caller_, plain_;
  std::string host_of_boot_;  // of lines with the boot's clock and a host
  bool has_boot_stamps_ = false;
  std::optional<WallStamp> relative_;  // of the newest line of dmesg -H
  std::optional<bool> has_marks_;      // behind its stamps, as the first line has them
  int month_ = -1, turns_ = 0;         // of the newest line without a year; Decembers passed
  std::optional<Nanos> last_yearless_;
  LogPrefix last_;  // of the newest line that had one
};

}  // namespace oomcast
