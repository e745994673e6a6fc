#include "blame/python_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace oomcast {
namespace {

constexpr unsigned kNewestKnown = 15;

// The word of struct _Py_DebugOffsets at which each group begins; the first fields of a group keep their
// order.
struct DebugGroups {
  std::size_t thread, thread_id, frame, code, object, type, bytes, text;
};
DebugGroups groups_of(unsigned minor) {
  if (minor == 13) return {19, 24, 28, 34, 44, 46, 64, 67};
  if (minor == 14) return {22, 27, 31, 39, 50, 52, 74, 77};
  return {22, 30, 39, 47, 58, 60, 86, 89};
}

}  // namespace

std::string to_string(const Python& python) {
  const PythonVersion& v = python.version;
  std::string out = fmt::format("CPython {}.{}", v.major, v.minor);
  if (v.micro) out += fmt::format(".{}", *v.micro);
  if (!python.objects.counted) out += " without the global lock";
  if (python.assumed) out += fmt::format(", read as 3.{}", kNewestKnown);
  return out;
}

std::optional<Python> layout_of(PythonVersion version) {
  if (version.major != 3 || version.minor < 8 || version.minor > 12) return std::nullopt;
  Python p;
  p.version = version;
  wire::PythonLayout& l = p.layout;
  PythonObjects& o = p.objects;
  l.interpreter_next = 0;
  l.thread_next = 8;
  if (version.minor <= 10) {
    l.interpreters = 32;
    l.interpreter_threads = 8;
    l.thread_frame = 24;
    l.thread_id = 176;
    l.frame_code = 32;
    l.frame_previous = 24;
    l.frame_instruction = version.minor == 10 ? 96 : 104;
    l.entry = wire::PythonLayout::Entry::each;
    l.code_file = 104;
    l.code_name = 112;
    l.code_lines = 120;
    o.code_first_line = 40;
    o.code_local_names = 72;
    o.frame_locals = version.minor == 10 ? 352 : 360;
    o.lines = version.minor == 10 ? PythonObjects::Lines::ranges : PythonObjects::Lines::numbered;
    return p;
  }
  l.interpreters = 40;
  l.thread_frame = 56;
  l.frame_instruction = 56;
  l.code_file = 112;
  l.code_name = 128;  // the qualified name
  l.code_lines = 136;
  o.code_local_names = 96;
  o.frame_locals = 72;
  if (version.minor == 11) {
    l.interpreter_threads = 16;
    l.thread_id = 152;
    l.cframe_frame = 8;
    l.frame_code = 32;
    l.frame_previous = 48;
    l.frame_entry = 68;
    l.entry = wire::PythonLayout::Entry::flag;
    o.code_first_line = 72;
    o.code_instructions = 184;
  } else {
    l.interpreter_threads = 72;
    l.thread_id = 136;
    l.cframe_frame = 0;
    l.frame_code = 0;
    l.frame_previous = 8;
    l.frame_entry = 70;
    l.entry = wire::PythonLayout::Entry::owner;
    l.entry_owner = 3;
    o.code_first_line = 68;
    o.code_instructions = 192;
    o.text_ascii = 40;
    o.text_compact = 56;
  }
  return p;
}

Result<Python> layout_from(std::span<const std::uint64_t, kDebugOffsetWords> words) {
  if (words[0] != kDebugCookie) return Error::failed("its table of offsets is not one");
  Python p;
  p.version = {static_cast<unsigned>(words[1] >> 24 & 255), static_cast<unsigned>(words[1] >> 16 & 255),
               static_cast<unsigned>(words[1] >> 8 & 255)};
  if (p.version.major != 3 || p.version.minor < 13)
    return Error::failed(
        fmt::format("its table of offsets is said to be of CPython {}.{}", p.version.major, p.version.minor));
  p.assumed = p.version.minor > kNewestKnown;
  DebugGroups g = groups_of(p.version.minor);
  bool fits = true;
  // Each group begins with the size of its structure: no field offset exceeds it.
  auto field = [&](std::size_t group, std::size_t word) {
    constexpr std::uint64_t kLargest = 64 * 1024 * 1024;
    std::uint64_t value = words[word];
    fits &= words[group] <= kLargest && value < words[group];
    return static_cast<std::uint32_t>(value);
  };
  constexpr std::size_t kRuntime = 3, kInterpreter = 6;
  wire::PythonLayout& l = p.layout;
  PythonObjects& o = p.objects;
  l.interpreters = field(kRuntime, kRuntime + 2);
  l.interpreter_next = field(kInterpreter, kInterpreter + 2);
  l.interpreter_threads = field(kInterpreter, kInterpreter + 3);
  l.thread_next = field(g.thread, g.thread + 2);
  l.thread_frame = field(g.thread, g.thread + 4);
  l.thread_id = field(g.thread, g.thread_id);
  l.frame_previous = field(g.frame, g.frame + 1);
  l.frame_code = field(g.frame, g.frame + 2);
  l.frame_instruction = field(g.frame, g.frame + 3);
  l.frame_entry = field(g.frame, g.frame + 5);
  l.entry = wire::PythonLayout::Entry::owner;
  l.entry_owner = 3;
  l.code_file = field(g.code, g.code + 1);
  l.code_name = field(g.code, g.code + 3);
  l.code_lines = field(g.code, g.code + 4);
  o.code_first_line = field(g.code, g.code + 5);
  o.code_instructions = static_cast<std::uint32_t>(words[g.code + 9]);
  fits &= o.code_instructions > 0 && words[g.code + 9] <= words[g.code];
  o.code_local_names = field(g.code, g.code + 7);
  o.frame_locals = static_cast<std::uint32_t>(std::min<std::uint64_t>(words[g.frame + 4], words[g.frame]));
  o.object_type = field(g.object, g.object + 1);
  o.type_name = field(g.type, g.type + 1);
  o.bytes_size = field(g.bytes, g.bytes + 1);
  o.bytes_data = field(g.bytes, g.bytes + 2);
  o.text_state = field(g.text, g.text + 1);
  o.text_length = field(g.text, g.text + 2);
  o.text_ascii = field(g.text, g.text + 3);
  o.text_compact = o.text_ascii + 16;
  o.counted = words[2] == 0;
  o.text_kind_bit = o.counted || p.version.minor == 13 ? 2 : 8;
  fits &= o.object_type >= 8 && o.object_type < 64 && o.bytes_size > o.object_type &&
          o.bytes_data > o.bytes_size && o.text_length > o.object_type && o.text_state < o.text_ascii &&
          l.code_file > o.object_type && l.code_name > o.object_type && l.code_lines > o.object_type;
  if (!fits) return Error::failed("its table of offsets contradicts itself");
  return p;
}

}  // namespace oomcast
