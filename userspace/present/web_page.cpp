#include "present/web_page.h"

#include <fmt/format.h>

namespace oomcast {
namespace {

// In JSON these characters occur only within strings, where \u is equivalent. `<` could end the element or
// begin a comment in it; the others are for readers that are not HTML parsers.
std::string inert(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '<' || json[i] == '>' || json[i] == '&')
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(json[i]));
    else if (json.substr(i, 3) == "\xe2\x80\xa8" || json.substr(i, 3) == "\xe2\x80\xa9")
      out += json[i += 2] == '\xa8' ? "\\u2028" : "\\u2029";
    else
      out += json[i];
  }
  return out;
}

std::string as_text(std::string_view title) {
  std::string out;
  for (char c : title) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string to_html(const WebPage& page, std::string_view title, std::string_view json) {
  // Trusted types: the script cannot turn a string into markup, even by mistake.
  std::string head = fmt::format(
      R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{}</title>
<style>)",
      page.script_sha256, page.style_sha256, as_text(title));
  std::string out;
  out.reserve(head.size() + page.style.size() + page.script.size() + json.size() + json.size() / 8 + 1024);
  out += head;
  out += page.style;
  out += "</style>\n</head>\n<body>\n<noscript>This page needs JavaScript; it loads nothing.</noscript>\n";
  out += "<script type=\"application/json\" id=\"data\">";
  out += inert(json);
  out += "</script>\n<script>";
  out += page.script;
  out += "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace oomcast
