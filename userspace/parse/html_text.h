// Extracts the text of an HTML page that was saved or pasted with its tags.
#pragma once

#include <string>
#include <string_view>

namespace oomcast {

/// Whether a line can only be a page's: it has spaces by name; or, `at_beginning` of a file, where no process
/// could have such a name, begins with a mark or ends with one that breaks lines.
bool is_html(std::string_view line, bool at_beginning);
/// Without marks; those that begin a line or a cell are a newline and a tab. Characters by name or number as
/// themselves.
std::string html_text(std::string_view line);

}  // namespace oomcast
