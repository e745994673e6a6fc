#include "parse/html_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "parse/text.h"
#include "parse/utf16.h"

namespace oomcast {
namespace {

constexpr std::array<std::string_view, 24> kHtmlMarks = {
    "!doctype", "html", "head", "body", "div", "p",    "br", "pre", "code", "span", "table",  "tr",
    "td",       "th",   "li",   "ul",   "ol",  "font", "b",  "i",   "a",    "tt",   "strong", "blockquote"};
constexpr std::array<std::string_view, 10> kBreaks = {"br",  "p",  "div", "li", "tr",
                                                      "pre", "ul", "ol",  "h",  "blockquote"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kEntityNames = {
    {{"nbsp", " "}, {"lt", "<"}, {"gt", ">"}, {"amp", "&"}, {"quot", "\""}, {"apos", "'"}}};

// "<br/>": "br"; empty: no mark begins here. Takes it off.
std::string take_mark(std::string_view& text) {
  constexpr std::size_t kLongest = 2048;
  std::string_view rest = text;
  if (!take(rest, "<")) return {};
  bool ends = take(rest, "/");
  std::string name;
  while (!rest.empty() && name.size() < 16) {
    char c = rest[0];
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    if ((c < 'a' || c > 'z') && c != '!') break;
    name += c;
    rest.remove_prefix(1);
  }
  if (std::ranges::find(kHtmlMarks, name) == kHtmlMarks.end()) return {};
  if (rest.empty() || std::string_view(" />\t123456").find(rest[0]) == npos) return {};
  std::size_t end = rest.substr(0, kLongest).find('>');
  if (end == npos) return {};
  text = rest.substr(end + 1);
  return ends && (name == "td" || name == "th") ? "/" + name : name;
}

// "&nbsp;", "&#39;", "&#x27;"; false: it stands for itself.
bool take_entity(std::string_view& text, std::string& out) {
  constexpr std::size_t kLongest = 10;
  std::size_t end = text.substr(0, kLongest).find(';');
  if (end == npos) return false;
  std::string_view name = text.substr(1, end - 1);
  if (take(name, "#")) {
    bool hex = take(name, "x") || take(name, "X");
    auto code = take_number<std::uint32_t>(name, hex ? 16 : 10);
    if (!code || !name.empty() || *code == 0) return false;
    constexpr std::uint32_t kNoBreakSpace = 0xa0;
    append_utf8(out, *code == kNoBreakSpace ? ' ' : *code);
  } else {
    const auto* named =
        std::ranges::find(kEntityNames, name, &std::pair<std::string_view, std::string_view>::first);
    if (named == kEntityNames.end()) return false;
    out += named->second;
  }
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

bool is_html(std::string_view line, bool at_beginning) {
  std::string_view rest = trim(line), mark = rest;
  if (at_beginning && !take_mark(mark).empty()) return true;
  for (std::string_view end : {"<br>", "<br/>", "<br />", "</p>", "</div>", "</pre>", "</li>"})
    if (at_beginning && rest.ends_with(end)) return true;
  // No name has room for two.
  std::size_t space = rest.find("&nbsp;");
  return space != npos && rest.find("&nbsp;", space + 16) != npos;
}

std::string html_text(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    std::size_t plain = std::min(line.find_first_of("<&"), line.size());
    out += line.substr(0, plain);
    line.remove_prefix(plain);
    if (line.empty()) break;
    if (line[0] == '&' && take_entity(line, out)) continue;
    if (std::string mark = line[0] == '<' ? take_mark(line) : std::string(); !mark.empty()) {
      if (mark == "td" || mark == "th") out += '\t';
      if (std::ranges::find(kBreaks, mark) != kBreaks.end()) out += '\n';
      continue;
    }
    out += line[0];
    line.remove_prefix(1);
  }
  return out;
}

}  // namespace oomcast
