// JSON that is printed to a terminal.
#pragma once

#include <string>

namespace oomcast {

/// The characters that escape_for_terminal() does not let through become \uXXXX, which to a parser is the
/// same. Writers of JSON leave all but C0 controls as they are: U+009B and DEL command a terminal, U+202E
/// turns around what follows it. `json`: a valid document, of which only strings can have them.
std::string escape_json_for_terminal(std::string json);

}  // namespace oomcast
