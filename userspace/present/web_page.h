// One HTML file that opens offline: style, script and data in one, and a policy that forbids loading or
// sending anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

/// The parts of a page besides its data; defined at build time by oomcast_web_page()
/// (scripts/cmake/web.cmake), nullopt in a build without HTML. The hashes are for the
/// Content-Security-Policy.
struct WebPage {
  std::string_view style, style_sha256;
  std::string_view script, script_sha256;
};

/// The whole file. `json` is one valid JSON value, with any strings; the script reads it from the element
/// `data`.
std::string to_html(const WebPage& page, std::string_view title, std::string_view json);

}  // namespace oomcast
