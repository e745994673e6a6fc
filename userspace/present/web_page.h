// One HTML file that opens offline: style, script and data in it, and a policy that lets it load or send
// nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

/// What a page is made of besides its data; defined at build by oomcast_web_page() (scripts/cmake/web.cmake),
/// nullopt in a build without HTML. The hashes are those of the Content-Security-Policy.
struct WebPage {
  std::string_view style, style_sha256;
  std::string_view script, script_sha256;
};

/// The whole file. `json` is one valid JSON value, whatever is in its strings; the script finds it as the
/// text of the element `data`.
std::string to_html(const WebPage& page, std::string_view title, std::string_view json);

}  // namespace oomcast
