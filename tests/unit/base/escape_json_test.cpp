#include "base/escape_json.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

TEST(EscapeJson, what_commands_a_terminal_or_turns_text_around_is_escaped_as_json_does) {
  EXPECT_EQ(escape_json_for_terminal("{\"a\":\"\u202egpj.exe\"}"), R"({"a":"\u202egpj.exe"})");
  EXPECT_EQ(escape_json_for_terminal("\"\u009b31m\u0080\u009f\x7f\""), R"("\u009b31m\u0080\u009f\u007f")");
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"})
    EXPECT_EQ(escape_json_for_terminal(mark).substr(0, 2), "\\u") << mark;
}

TEST(EscapeJson, all_else_stays_as_it_is) {
  for (std::string json : {R"({"a":"b\\n\"","n":1})", "\"naïve 日本語 🐘 \u00a0\u2070\"", "\"\\u202e\"", ""})
    EXPECT_EQ(escape_json_for_terminal(json), json);
}

}  // namespace
}  // namespace oomcast
