#include "stream/code_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/escape.h"

namespace oomcast {
namespace {

std::string_view base_name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

bool is_library(std::string_view file) {
  constexpr std::array<std::string_view, 4> kParts = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                                      "/lib64/python3"};
  return file.starts_with('<') || std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
           return file.find(part) != std::string_view::npos;
         });
}

const CodePlace* culprit(const std::vector<CodePlace>& code) {
  for (const CodePlace& place : code)
    if (!is_library(place.file)) return &place;
  return code.empty() ? nullptr : &code.front();
}

std::string code_text(bool python, std::string_view function, std::string_view file,
                      std::optional<std::uint32_t> line) {
  std::string name = function.empty() ? "?" : escape_for_terminal(function);
  if (file.empty()) return name;
  std::string in = escape_for_terminal(python ? file : base_name_of(file));
  return line ? fmt::format("{} ({}:{})", name, in, *line) : fmt::format("{} ({})", name, in);
}

std::string to_text(const CodePlace& place) {
  return code_text(place.line.has_value(), place.function, base_name_of(place.file), place.line);
}

}  // namespace oomcast
