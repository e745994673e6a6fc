// Formats code places (program lines, functions of mapped files) for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/code_place.h"

namespace oomcast {

/// The interpreter's or an installed package's source: what a person wrote calls it.
bool is_library(std::string_view file);

/// The innermost place outside of libraries, or the innermost of all. nullptr: there is none.
const CodePlace* culprit(const std::vector<CodePlace>& code);

/// "load (train.py:31)", "grow (libfoo.so)", "? (libfoo.so)". Safe on a terminal.
std::string code_text(bool python, std::string_view function, std::string_view file,
                      std::optional<std::uint32_t> line);
std::string to_text(const CodePlace& place);

}  // namespace oomcast
