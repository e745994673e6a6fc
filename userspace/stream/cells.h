// Text on a terminal: styled by meaning rather than colour, and measured in columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stream/text.h"

namespace oomcast {

enum class Style : std::uint8_t {
  normal,
  dim,       // unobtrusive
  strong,    // headings
  warn,      // on its way to trouble
  alert,     // someone should act
  selected,  // what the keys act on
};

/// A run of text in one style.
struct Cell {
  std::string text;
  Style style = Style::normal;
};

struct Line {
  std::vector<Cell> cells;
  bool selected = false;  // the whole line, over the styles of its cells

  Line& add(std::string text, Style style = Style::normal);
};

/// Columns that a UTF-8 text takes, by wcwidth in a UTF-8 locale, whatever the process's own locale is.
std::size_t display_width(std::string_view utf8);
std::size_t display_width(const Line& line);

/// Any bytes made safe to show: escape_for_terminal, then settle_marks.
std::string displayable(std::string_view bytes);
/// For text that was escaped already: what has no width of its own is escaped where it would change a
/// neighbour (at the front, or more than two marks on one character).
std::string settle_marks(std::string_view escaped);

/// At most `width` columns; what is too long loses its end or its middle to an "…".
std::string cut_end(std::string_view utf8, std::size_t width);
std::string cut_middle(std::string_view utf8, std::size_t width);
/// Exactly `width` columns.
std::string align_left(std::string_view utf8, std::size_t width);
std::string align_right(std::string_view utf8, std::size_t width);
/// Broken at spaces where possible, never wider than `width`; lines after the first begin with `indent`
/// spaces.
std::vector<std::string> wrap(std::string_view utf8, std::size_t width, std::size_t indent);

/// The same as lines of one style.
void add_wrapped(std::vector<Line>& out, std::size_t width, std::string_view utf8, std::size_t indent,
                 Style style);

/// Cuts the line's end.
void cut_end(Line& line, std::size_t width);
/// For a terminal that cannot show UTF-8: same widths, ASCII only.
void to_ascii(Line& line);

/// The line without trailing blanks; its styles as colours if the style wants them.
std::string to_text(const Line& line, const TextStyle& style);

}  // namespace oomcast
