#include "stream/cells.h"

#include <fmt/format.h>
#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "base/escape.h"

namespace oomcast {
namespace {

// wcwidth asks the thread's locale, which is "C" in tests and in many services.
class Utf8Locale {
 public:
  Utf8Locale() : before_(uselocale(utf8())) {}
  ~Utf8Locale() { uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  // A null one, on a machine without C.UTF-8, leaves the thread's.
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
  }
  locale_t before_;
};

struct Character {
  std::string_view text;
  char32_t code = 0;
  int width = 1;  // -1: none that wcwidth knows
};

int width_of(char32_t code) {
  if (code < 0x7f) return code < 0x20 ? -1 : 1;
  Utf8Locale utf8;
  return wcwidth(static_cast<wchar_t>(code));
}

// The first character of a text that is not empty; a byte that begins none stands for itself.
Character first_character(std::string_view s) {
  auto lead = static_cast<unsigned char>(s[0]);
  std::size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead >= 0x80 && (size == 1 || size > s.size())) return {s.substr(0, 1), 0xfffd, 1};
  char32_t code = size == 1 ? lead : lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(s[i]) & 0x3fu);
  return {s.substr(0, size), code, width_of(code)};
}

std::size_t columns(const Character& c) {
  return c.width < 0 ? 1 : static_cast<std::size_t>(c.width);
}

// The longest front of the text that fits, with the marks on its last character.
std::string_view front(std::string_view text, std::size_t width) {
  std::size_t used = 0, bytes = 0;
  while (bytes < text.size()) {
    Character c = first_character(text.substr(bytes));
    if (used + columns(c) > width) break;
    used += columns(c);
    bytes += c.text.size();
  }
  return text.substr(0, bytes);
}

// The longest end of the text that fits and does not begin with a mark.
std::string_view back(std::string_view text, std::size_t width) {
  std::size_t left = display_width(text);
  while (!text.empty()) {
    Character c = first_character(text);
    if (left <= width && columns(c) > 0) break;
    left -= columns(c);
    text.remove_prefix(c.text.size());
  }
  return text;
}

std::string blanks(std::size_t width, std::string_view text) {
  std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ');
}

std::string_view color(Style style) {
  switch (style) {
    case Style::dim:
      return "\033[2m";
    case Style::strong:
      return "\033[1m";
    case Style::warn:
      return "\033[33m";
    case Style::alert:
      return "\033[1;31m";
    case Style::selected:
      return "\033[7m";
    case Style::normal:
      break;
  }
  return "";
}

}  // namespace

Line& Line::add(std::string text, Style style) {
  if (!text.empty()) cells.push_back({std::move(text), style});
  return *this;
}

std::size_t display_width(std::string_view utf8) {
  std::size_t out = 0;
  while (!utf8.empty()) {
    Character c = first_character(utf8);
    out += columns(c);
    utf8.remove_prefix(c.text.size());
  }
  return out;
}

std::size_t display_width(const Line& line) {
  std::size_t out = 0;
  for (const Cell& cell : line.cells) out += display_width(cell.text);
  return out;
}

std::string displayable(std::string_view bytes) {
  return settle_marks(escape_for_terminal(bytes));
}

std::string settle_marks(std::string_view escaped) {
  std::string out;
  out.reserve(escaped.size());
  constexpr int kMaxMarks = 2;
  int marks = kMaxMarks;  // nothing to stand on yet
  for (std::string_view rest = escaped; !rest.empty();) {
    Character c = first_character(rest);
    rest.remove_prefix(c.text.size());
    marks = c.width == 0 ? marks + 1 : 0;
    if (c.width < 0 || marks > kMaxMarks)
      out += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(c.code));
    else
      out += c.text;
  }
  return out;
}

std::string cut_end(std::string_view utf8, std::size_t width) {
  if (display_width(utf8) <= width) return std::string(utf8);
  if (width == 0) return "";
  return std::string(front(utf8, width - 1)) + "…";
}

std::string cut_middle(std::string_view utf8, std::size_t width) {
  if (display_width(utf8) <= width) return std::string(utf8);
  if (width < 5) return cut_end(utf8, width);
  // The end tells more: it is where paths differ.
  std::size_t head = (width - 1) * 2 / 5;
  std::string_view begin = front(utf8, head);
  return std::string(begin) + "…" + std::string(back(utf8, width - 1 - display_width(begin)));
}

std::string align_left(std::string_view utf8, std::size_t width) {
  std::string out = cut_end(utf8, width);
  return out + blanks(width, out);
}

std::string align_right(std::string_view utf8, std::size_t width) {
  std::string out = cut_end(utf8, width);
  return blanks(width, out) + out;
}

std::vector<std::string> wrap(std::string_view utf8, std::size_t width, std::size_t indent) {
  std::vector<std::string> out;
  if (width == 0) return out;
  if (indent * 2 > width) indent = 0;
  std::size_t begin = 0;  // columns that the line's indent takes
  while (true) {
    std::string_view line = front(utf8, width - begin);
    if (line.empty() && !utf8.empty()) line = first_character(utf8).text;  // too wide for the whole line
    if (line.size() < utf8.size() && utf8[line.size()] != ' ') {
      std::size_t space = line.rfind(' ');
      if (space != std::string_view::npos && line.find_first_not_of(' ') < space)
        line = line.substr(0, space);
    }
    out.push_back(std::string(begin, ' ') + std::string(line));
    utf8.remove_prefix(line.size());
    if (utf8.empty()) return out;
    utf8.remove_prefix(std::min(utf8.find_first_not_of(' '), utf8.size()));
    if (utf8.empty()) return out;
    begin = indent;
  }
}

void add_wrapped(std::vector<Line>& out, std::size_t width, std::string_view utf8, std::size_t indent,
                 Style style) {
  for (std::string& part : wrap(utf8, width, indent)) out.push_back(Line().add(std::move(part), style));
}

void cut_end(Line& line, std::size_t width) {
  if (display_width(line) <= width) return;
  std::size_t left = width;
  for (std::size_t i = 0; i < line.cells.size(); ++i) {
    std::size_t used = display_width(line.cells[i].text);
    bool last = i + 1 == line.cells.size();
    if (used < left || (used == left && last)) {
      left -= used;
      continue;
    }
    // Something is lost here or right after: say so in this cell.
    std::string text = left == 0 ? "" : std::string(front(line.cells[i].text, left - 1)) + "…";
    line.cells[i].text = std::move(text);
    line.cells.resize(i + 1);
    return;
  }
}

void to_ascii(Line& line) {
  for (Cell& cell : line.cells) {
    std::string out;
    for (std::string_view rest = cell.text; !rest.empty();) {
      Character c = first_character(rest);
      rest.remove_prefix(c.text.size());
      if (c.code < 0x7f)
        out += c.text;
      else if (c.code == U'…' || c.code == U'±')
        out += '~';
      else if (c.code == U'–')
        out += '-';
      else if (c.code == U'█')
        out += '#';
      else if (c.code == U'▒')
        out += '=';
      else if (c.code == U'·')
        out += '.';
      else
        out.append(columns(c), '?');
    }
    cell.text = std::move(out);
  }
}

std::string to_text(const Line& line, const TextStyle& style) {
  std::string out;
  for (const Cell& cell : line.cells) {
    std::string_view begin = style.color ? color(line.selected ? Style::selected : cell.style) : "";
    out += begin.empty() ? cell.text : fmt::format("{}{}\033[0m", begin, cell.text);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace oomcast
