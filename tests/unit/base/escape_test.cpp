#include "base/escape.h"

#include <gtest/gtest.h>

#include <random>

namespace oomcast {
namespace {

using namespace std::string_literals;

// Written by hand from RFC 3629's grammar, unlike the code under test, which computes code points.
bool is_valid_utf8(std::string_view s) {
  auto in = [&](std::size_t i, int low, int high) {
    if (i >= s.size()) return false;
    int b = static_cast<unsigned char>(s[i]);
    return b >= low && b <= high;
  };
  auto tail = [&](std::size_t i) { return in(i, 0x80, 0xbf); };
  for (std::size_t i = 0; i < s.size();) {
    if (in(i, 0, 0x7f))
      i += 1;
    else if (in(i, 0xc2, 0xdf) && tail(i + 1))
      i += 2;
    else if (((in(i, 0xe0, 0xe0) && in(i + 1, 0xa0, 0xbf)) || (in(i, 0xe1, 0xec) && tail(i + 1)) ||
              (in(i, 0xed, 0xed) && in(i + 1, 0x80, 0x9f)) || (in(i, 0xee, 0xef) && tail(i + 1))) &&
             tail(i + 2))
      i += 3;
    else if (((in(i, 0xf0, 0xf0) && in(i + 1, 0x90, 0xbf)) || (in(i, 0xf1, 0xf3) && tail(i + 1)) ||
              (in(i, 0xf4, 0xf4) && in(i + 1, 0x80, 0x8f))) &&
             tail(i + 2) && tail(i + 3))
      i += 4;
    else
      return false;
  }
  return true;
}

TEST(ShellWord, is_the_same_word_again_and_harmless) {
  EXPECT_EQ(shell_word("/var/log/a-1.csv"), "/var/log/a-1.csv");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("rss (KB)"), "'rss (KB)'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("a\tb'\\ \x1b[2J"), "$'a\\x09b\\'\\\\ \\x1b[2J'");
  EXPECT_EQ(shell_word("~\xe2\x80\xae"), "$'~\\xe2\\x80\\xae'") << "U+202E turns the text around";
  EXPECT_EQ(shell_word("größe"), "'größe'");
}

std::string random_bytes(std::mt19937& random) {
  // Mostly bytes that make sequences, so that nearly valid ones are common.
  constexpr unsigned char often[] = {0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xa0, 0x9f, 0xed, 0xef,
                                     0xf0, 0x8f, 0x90, 0xf4, 0xf5, 0xff, 'a',  '\\', 0x1b, '\n', 0};
  std::string out(random() % 12, '\0');
  for (char& c : out)
    c = static_cast<char>(random() % 2 ? random() % 256 : often[random() % std::size(often)]);
  return out;
}

TEST(ToValidUtf8, leaves_valid_text_alone) {
  for (const std::string& text :
       {""s, "python3"s, "naïve"s, "日本語"s, "🐘"s, "\u07ff\u0800\uffff\U00010000\U0010ffff"s, "a\\b"s,
        "line\nline"s, "nul\0byte"s})
    EXPECT_EQ(to_valid_utf8(text), text);
}

TEST(ToValidUtf8, shows_each_byte_that_does_not_belong) {
  EXPECT_EQ(to_valid_utf8("a\xff"
                          "b"),
            "a\\xffb");
  EXPECT_EQ(to_valid_utf8("\x80\xbf"), "\\x80\\xbf");
  EXPECT_EQ(to_valid_utf8("\xfe"), "\\xfe");
}

TEST(ToValidUtf8, refuses_overlong_forms) {
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(to_valid_utf8("\xc1\xbf"), "\\xc1\\xbf");
  EXPECT_EQ(to_valid_utf8("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(to_valid_utf8("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf");
  EXPECT_EQ(to_valid_utf8("\xf0\x80\x80\xaf"), "\\xf0\\x80\\x80\\xaf");
  EXPECT_EQ(to_valid_utf8("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
}

TEST(ToValidUtf8, refuses_surrogates_and_what_is_past_the_last_code_point) {
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(to_valid_utf8("\xed\xbf\xbf"), "\\xed\\xbf\\xbf");
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(to_valid_utf8("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(ToValidUtf8, refuses_sequences_that_end_early_and_goes_on_behind_them) {
  EXPECT_EQ(to_valid_utf8("\xe6\x97"), "\\xe6\\x97");
  EXPECT_EQ(to_valid_utf8("\xf0\x9f\x90"), "\\xf0\\x9f\\x90");
  EXPECT_EQ(to_valid_utf8("\xc3"), "\\xc3");
  EXPECT_EQ(to_valid_utf8("\xe6\x97"
                          "abc"),
            "\\xe6\\x97"
            "abc");
  EXPECT_EQ(to_valid_utf8("\xf0\x9f\xc3\xa9"), "\\xf0\\x9fé");
}

TEST(ToValidUtf8, is_valid_whatever_it_was_given) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = random_bytes(random), out = to_valid_utf8(bytes);
    ASSERT_TRUE(is_valid_utf8(out)) << testing::PrintToString(bytes);
    ASSERT_EQ(out == bytes, is_valid_utf8(bytes)) << testing::PrintToString(bytes);
  }
}

TEST(EscapeForTerminal, has_no_control_character_and_one_line) {
  EXPECT_EQ(escape_for_terminal("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(escape_for_terminal("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
  EXPECT_EQ(escape_for_terminal("nul\0"s), "nul\\x00");
  EXPECT_EQ(escape_for_terminal("\u009b31m"), "\\u{9b}31m") << "C1 controls are commands to some terminals";
}

TEST(EscapeForTerminal, doubles_the_backslash_so_that_nothing_imitates_an_escape) {
  EXPECT_EQ(escape_for_terminal("\\n"), "\\\\n");
  EXPECT_EQ(escape_for_terminal("\\x1b"), "\\\\x1b");
}

TEST(EscapeForTerminal, shows_direction_marks_and_other_invisible_characters) {
  EXPECT_EQ(escape_for_terminal("a\u202egpj.exe"), "a\\u{202e}gpj.exe");
  for (const char* mark : {"\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u2060",
                           "\u2066", "\u2069", "\ufeff"}) {
    std::string out = escape_for_terminal(mark);
    EXPECT_EQ(out.substr(0, 3), "\\u{") << out;
  }
}

TEST(EscapeForTerminal, leaves_visible_text_alone) {
  for (const std::string& text : {"python3 train.py"s, "naïve"s, "日本語"s, "🐘"s, "a/b-c_d.e"s})
    EXPECT_EQ(escape_for_terminal(text), text);
}

TEST(MakeHarmless, leaves_what_was_escaped_before_and_escapes_what_was_not) {
  EXPECT_EQ(make_harmless("/nginx\\x2dfoo \xc3\xa9"), "/nginx\\x2dfoo \xc3\xa9");
  EXPECT_EQ(make_harmless("a\x1b]0;t\a\n\xc2\x9b\xff\xe2\x80\xae"),
            "a\\x1b]0;t\\x07\\n\\u{9b}\\xff\\u{202e}");
}

TEST(EscapeForTerminal, is_valid_and_printable_whatever_it_was_given) {
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = random_bytes(random), out = escape_for_terminal(bytes);
    ASSERT_TRUE(is_valid_utf8(out)) << testing::PrintToString(bytes);
    for (char c : out)
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace oomcast
