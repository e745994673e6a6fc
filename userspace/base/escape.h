// Escapes untrusted names so that they cannot break a line, a terminal or a JSON document.
#pragma once

#include <string>
#include <string_view>

namespace oomcast {

/// Valid UTF-8 stays, control characters and invalid bytes become \n, \t or \xNN, a backslash is doubled. One
/// line, safe on a terminal: direction marks and other invisible format characters are escaped too, as
/// \u{202e}.
std::string escape_for_terminal(std::string_view bytes);

/// The same of what was escaped before, or may be shown as it is (a path in a message, a line of a
/// recording): a backslash stays one.
std::string make_harmless(std::string_view text);

/// One word of a command to paste into a shell, and safe on a terminal as it is. What escape_for_terminal()
/// would change is written as $'\x1b', which bash, zsh and ksh read.
std::string shell_word(std::string_view bytes);

/// Valid UTF-8 stays as it is; each byte that is not becomes \xNN. For JSON, whose writer escapes the rest.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace oomcast
