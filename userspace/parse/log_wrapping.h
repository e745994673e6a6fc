// Strips what people and programs put around a log line: quotation and colours, grep's names and numbers, a mail's
// encoding. It is used only to find the line itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

/// The terminal's colours and other control sequences (ECMA-48), as they are or as programs escape them.
bool has_colours(std::string_view line);
std::string without_colours(std::string_view line);

/// Without spaces, quotation, comment and list marks in front; of inline code only the code.
std::string_view without_quotation(std::string_view line);

/// A line of a mail in quoted-printable (RFC 2045 section 6.7).
struct QuotedPrintable {
  std::string text;
  bool goes_on = false;  // with the next line
};
/// nullopt: it is none, a "=" of it stands for itself.
std::optional<QuotedPrintable> from_quoted_printable(std::string_view line);
/// Whether a report's line can only come from such a mail.
bool is_quoted_printable(std::string_view line);

/// The first string of a programming language or of JSON ("…", '…' or `…`) in the line that `is_log` takes
/// for a log's, its escapes undone: it may have several lines. nullopt: there is none, or it is behind a
/// path.
std::optional<std::string> literal_inside(std::string_view line,
                                          const std::function<bool(const std::string&)>& is_log);

/// A cgroup's path, or a file's, may hold whatever its owner likes, a sentence of the kernel's too.
bool may_hold_path(std::string_view text);
/// The same of what may begin with the name of a log, as grep prints it.
bool may_hold_cgroup(std::string_view front);

/// What follows "kernel: " somewhere in the line. nullopt: nothing.
std::optional<std::string_view> behind_kernel_tag(std::string_view line);

/// A line behind a console's prompt or another's words: "host login: [ 123.456789] …", "[dmesg] [Fri Nov 21
/// …", "** 3 printk messages dropped ** [ 123.456789] …", "percona # [ 123.456789] …". nullopt: it is none.
std::optional<std::string_view> behind_prompt(std::string_view line);

/// Whether a sentence of the kernel's OOM killer begins here.
bool begins_sentence(std::string_view text);
/// Whether one is in it, whatever is around it.
bool holds_sentence(std::string_view text);

/// The lines of a log between a fence of Markdown within the line ("``` [ 1.5] … [ 1.6] …```"), one for each
/// stamp. nullopt: there is no such fence, or it may be part of a path.
std::optional<std::string> fenced_lines(std::string_view line);

/// What the kubelet's event of an OOM of its node tells, as a sentence of the kernel's. nullopt: it is none.
std::optional<std::string> from_kubelet(std::string_view line);

/// A sentence of the kernel's OOM killer that stands in a cell of a table, in quotation marks, as code, or
/// behind an event's reason. nullopt: there is none, or it is part of a person's sentence or of a path.
std::optional<std::string_view> sentence_inside(std::string_view line);

/// A sentence of a kill that is whole anywhere in the line. `stamped`: behind a log's stamp, where a person's
/// marks may stand before it, but no words; otherwise its scope is there, and a title before it. nullopt:
/// there is none, it begins the line, or it may be part of a path or of a person's sentence.
std::optional<std::string_view> whole_sentence_inside(std::string_view line, bool stamped);

/// Whether the line mentions an OOM kill in any wording.
bool speaks_of_kill(std::string_view line);

}  // namespace oomcast
