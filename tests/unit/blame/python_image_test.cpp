// CPython's objects as byte images of each version, laid into this process and read as another's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "blame/python.h"

namespace oomcast {
namespace {

using Lines = PythonObjects::Lines;

std::uint64_t address_of(const void* p) {
  return reinterpret_cast<std::uint64_t>(p);
}

/// One object; fields are put at the offsets that a layout names.
class Object {
 public:
  explicit Object(std::size_t bytes = 512) : bytes_(bytes) {}
  template <typename T>
  void put(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  void put_text(std::size_t at, std::string_view text) {
    std::memcpy(bytes_.data() + at, text.data(), text.size());
  }
  std::uint64_t address() const { return address_of(bytes_.data()); }

 private:
  std::vector<std::byte> bytes_;
};

/// A code object of two instructions' lines, with all that it refers to.
struct Image {
  explicit Image(Python p) : python(std::move(p)) {
    const PythonObjects& o = python.objects;
    auto type = [&](Object& to, const char* called) { to.put(o.type_name, address_of(called)); };
    type(code_type, "code");
    type(text_type, "str");
    type(bytes_type, "bytes");
    head(code, code_type);
    head(file, text_type);
    head(name, text_type);
    head(lines, bytes_type);
    text(file, "train.py");
    text(name, "append_output");
    switch (o.lines) {
      case Lines::numbered:
        table({2, 5, 2, 1});  // from byte 2 on 5 lines later, from 4 one more
        break;
      case Lines::ranges:
        table({2, 0, 2, 5, 2, 1});
        break;
      case Lines::locations:
        table({0xE8, 0, 0xE8, 10, 0xE8, 2});  // kind 13: one instruction each, signed deltas 0, 5, 1
        break;
    }
    code.put(python.layout.code_file, file.address());
    code.put(python.layout.code_name, name.address());
    code.put(python.layout.code_lines, lines.address());
    code.put<std::uint32_t>(o.code_first_line, 36);
  }

  void head(Object& object, const Object& type) {
    // As 3.14 has them: flags above, no more than 32 bits of count.
    object.put<std::uint64_t>(0, 0x0004'0000'0000'0002);
    object.put(python.objects.object_type, type.address());
  }
  void text(Object& object, std::string_view value) {
    const PythonObjects& o = python.objects;
    object.put<std::uint64_t>(o.text_length, value.size());
    object.put<std::uint32_t>(o.text_state, (1 | 1 << 3 | 1 << 4)
                                                << o.text_kind_bit);  // one byte each, ASCII
    object.put_text(o.text_ascii, value);
  }
  void table(std::initializer_list<unsigned> values) {
    lines.put<std::uint64_t>(python.objects.bytes_size, values.size());
    std::size_t at = python.objects.bytes_data;
    for (unsigned v : values) lines.put<std::uint8_t>(at++, static_cast<std::uint8_t>(v));
  }
  /// The frame at instruction `n`, in the unit of the version.
  wire::PythonFrame frame(std::uint64_t n) const {
    std::uint64_t at = n;
    if (python.objects.code_instructions) at = code.address() + python.objects.code_instructions + 2 * n;
    if (python.objects.lines == Lines::numbered) at = 2 * n;
    return {code.address(), at, wire::python_identity(file.address(), name.address(), lines.address()), true};
  }
  std::optional<Frame> resolve(std::uint64_t n) { return PythonCode(memory, python).resolve(frame(n)); }

  Python python;
  ProcessMemory memory{Roots{}, static_cast<std::uint32_t>(getpid())};
  Object code_type, text_type, bytes_type, code, file, name, lines;
};

/// The table that _PyRuntime begins with, as measured in Debian's 3.13.5, 3.14.10 and 3.15.2.
std::array<std::uint64_t, kDebugOffsetWords> debug_offsets(unsigned minor, bool counted = true) {
  std::array<std::uint64_t, kDebugOffsetWords> w{};
  w[0] = kDebugCookie;
  w[1] = 3u << 24 | minor << 16 | 5u << 8 | 0xf0;
  w[2] = !counted;
  std::size_t shift = minor == 13 ? 0 : 3;
  std::uint64_t more = counted ? 0 : 16;
  auto put = [&](std::size_t at, std::initializer_list<std::uint64_t> values) {
    for (std::uint64_t v : values) w[at++] = v;
  };
  put(3, {283376, 600, minor == 13 ? 632u : 808u});           // runtime: size, finalizing, interpreters
  put(6, {200000, 7256, minor == 13 ? 7264u : 7272u, 7344});  // interpreter: size, id, next, threads
  put(19 + shift, {800, 0, 8, 16, 72});                       // thread: size, prev, next, interp, frame
  w[minor >= 15 ? 30 : 24 + shift] = 152;                     // thread id
  std::size_t frame = minor >= 15 ? 39 : 28 + shift;
  put(frame,
      {88, 8, 0, 56, 80, minor == 13 ? 70u : 74u});  // size, previous, code, instruction, locals, owner
  std::size_t code = minor == 13 ? 34 : frame + 8, adaptive = minor == 13 ? 200 : 208;
  put(code, {adaptive + more, 112 + more, 120 + more, 128 + more, 136 + more, 68 + more, 52, 96, 104,
             adaptive + more});
  std::size_t object = minor == 13 ? 44 : code + 11;
  put(object, {16 + more, 8 + more, 416, 24 + more});
  std::size_t bytes = minor == 13 ? 64 : minor == 14 ? 74 : 86;
  put(bytes, {40 + more, 16 + more, 32 + more, 64 + more, 32 + more, 16 + more, 40 + more});
  return w;
}

TEST(PythonLayout, is_known_from_3_8_to_3_12) {
  for (unsigned minor : {8u, 9u, 10u, 11u, 12u}) {
    auto python = layout_of({3, minor, std::nullopt});
    ASSERT_TRUE(python) << minor;
    Image image(*python);
    auto first = image.resolve(0), second = image.resolve(1), third = image.resolve(2);
    ASSERT_TRUE(first && second && third) << minor;
    EXPECT_EQ(first->file, "train.py");
    EXPECT_EQ(first->function, "append_output");
    EXPECT_EQ(first->line, 36u) << minor;
    EXPECT_EQ(second->line, 41u) << minor;
    EXPECT_EQ(third->line, 42u) << minor;
  }
}

TEST(PythonLayout, of_other_versions_is_not_guessed) {
  for (unsigned minor : {6u, 7u, 13u, 99u}) EXPECT_FALSE(layout_of({3, minor, std::nullopt})) << minor;
  EXPECT_FALSE(layout_of({2, 8, std::nullopt}));
}

TEST(PythonLayout, of_3_13_and_later_is_what_the_interpreter_says) {
  for (unsigned minor : {13u, 14u, 15u})
    for (bool counted : {true, false}) {
      auto python = layout_from(debug_offsets(minor, counted));
      ASSERT_TRUE(python) << minor << ": " << python.error().message;
      EXPECT_EQ(python->layout.thread_id, 152u) << minor;
      EXPECT_EQ(python->layout.frame_instruction, 56u) << minor;
      EXPECT_EQ(python->layout.interpreter_threads, 7344u) << minor;
      EXPECT_FALSE(python->assumed);
      Image image(*python);
      auto second = image.resolve(1);
      ASSERT_TRUE(second) << minor << counted;
      EXPECT_EQ(second->function, "append_output");
      EXPECT_EQ(second->line, 41u);
    }
}

TEST(PythonLayout, of_a_newer_version_is_read_as_the_newest_known_and_says_so) {
  auto python = layout_from(debug_offsets(16));
  ASSERT_TRUE(python);
  EXPECT_TRUE(python->assumed);
  EXPECT_EQ(to_string(*python), "CPython 3.16.5, read as 3.15");
}

TEST(PythonLayout, that_contradicts_itself_is_refused) {
  auto good = debug_offsets(14);
  for (std::size_t word : {0u,  1u,  5u,  8u,  9u,  24u, 26u, 27u, 32u, 33u, 34u, 36u,
                           40u, 42u, 43u, 44u, 48u, 51u, 75u, 76u, 78u, 79u, 80u}) {
    auto bad = good;
    bad[word] = ~0ull;
    EXPECT_FALSE(layout_from(bad)) << word;
  }
  EXPECT_FALSE(layout_from(std::array<std::uint64_t, kDebugOffsetWords>{}));
}

TEST(PythonCode, of_an_object_that_is_none_is_unknown) {
  for (unsigned minor : {9u, 12u}) {
    Image image(*layout_of({3, minor, std::nullopt}));
    wire::PythonFrame frame = image.frame(0);
    PythonCode code(image.memory, image.python);
    EXPECT_FALSE(code.resolve({frame.code, frame.instruction, frame.identity + 1, true}));  // another by now
    EXPECT_FALSE(code.resolve({8, frame.instruction, frame.identity, true}));
    EXPECT_FALSE(code.resolve({~7ull, frame.instruction, frame.identity, true}));
    image.code.put(8, image.text_type.address());  // of another type
    EXPECT_FALSE(code.resolve(frame));
    image.head(image.code, image.code_type);
    image.code.put<std::uint64_t>(0, 0x7f12'3456'7890);  // freed: a pointer where the count was
    EXPECT_FALSE(code.resolve(frame));
  }
}

TEST(PythonCode, of_a_corrupted_string_or_table_is_unknown) {
  Image image(*layout_of({3, 12, std::nullopt}));
  PythonCode code(image.memory, image.python);
  image.lines.put<std::uint64_t>(image.python.objects.bytes_size, ~0ull);
  EXPECT_FALSE(code.resolve(image.frame(0)));
  image.lines.put<std::uint64_t>(image.python.objects.bytes_size, 1ull << 40);
  EXPECT_FALSE(code.resolve(image.frame(0)));
  image.table({0xE8, 0});
  image.file.put<std::uint32_t>(image.python.objects.text_state, ~0u);
  EXPECT_FALSE(code.resolve(image.frame(0)));
  image.text(image.file, "x.py");
  image.file.put<std::uint64_t>(image.python.objects.text_length, 1ull << 62);  // longer than what is mapped
  EXPECT_FALSE(code.resolve(image.frame(0)));
}

TEST(PythonCode, has_no_line_for_an_instruction_that_lies_elsewhere) {
  Image image(*layout_of({3, 12, std::nullopt}));
  wire::PythonFrame frame = image.frame(0);
  PythonCode code(image.memory, image.python);
  for (std::uint64_t at : std::array<std::uint64_t, 4>{0, frame.code, frame.instruction + (1 << 20), ~0ull}) {
    auto told = code.resolve({frame.code, at, frame.identity, true});
    ASSERT_TRUE(told);
    EXPECT_EQ(told->function, "append_output");
    EXPECT_EQ(told->line, std::nullopt) << at;
  }
  auto not_begun = code.resolve({frame.code, frame.instruction - 2, frame.identity, true});
  EXPECT_EQ(not_begun->line, 36u);
}

}  // namespace
}  // namespace oomcast
