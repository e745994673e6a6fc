#include "blame/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "blame/symbols.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxText = 4096;  // characters of a name or file
constexpr std::size_t kMaxLineTable = 1024 * 1024;
constexpr std::size_t kMaxCodes = 65536, kMaxCodeBytes = 4 << 20;

bool may_hold_python(std::string_view path) {
  return path.substr(path.rfind('/') + 1).find("python") != std::string_view::npos;
}

// Reads byte by byte; beyond the end it returns zeros and reports the overrun.
class Table {
 public:
  explicit Table(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  unsigned next() {
    if (bytes_.empty()) return 0;
    auto value = std::to_integer<unsigned>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint32_t varint() {
    std::uint32_t value = 0;
    unsigned shift = 0, byte = 0;
    do {
      byte = next();
      value |= (byte & 63u) << shift;
      shift += 6;
    } while ((byte & 64u) && shift < 30);
    return value;
  }
  std::int64_t signed_varint() {
    std::uint32_t value = varint();
    return value & 1 ? -static_cast<std::int64_t>(value >> 1) : static_cast<std::int64_t>(value >> 1);
  }

 private:
  std::span<const std::byte> bytes_;
};

std::optional<std::uint32_t> as_line(std::int64_t line) {
  return line > 0 && line < INT32_MAX ? std::optional(static_cast<std::uint32_t>(line)) : std::nullopt;
}

// Objects/locations.md of CPython: entries for 1 to 8 instructions, with a kind and line data of that kind.
std::optional<std::uint32_t> line_in_locations(Table table, std::int64_t line, std::uint64_t instruction) {
  std::uint64_t at = 0;
  while (!table.done()) {
    unsigned head = table.next(), kind = head >> 3 & 15;
    at += (head & 7) + 1;
    bool none = false;
    if (kind < 10) {
      table.next();
    } else if (kind < 13) {
      line += kind - 10;
      table.next();
      table.next();
    } else if (kind == 13) {
      line += table.signed_varint();
    } else if (kind == 14) {
      line += table.signed_varint();
      table.varint();
      table.varint();
      table.varint();
    } else {
      none = true;
    }
    if (instruction < at) return none ? std::nullopt : as_line(line);
  }
  return std::nullopt;
}

// Pairs of (bytes of instructions, signed line delta): in 3.10 the delta applies to the range itself, −128
// means no line.
std::optional<std::uint32_t> line_in_ranges(Table table, std::int64_t line, std::uint64_t instruction) {
  std::uint64_t at = 0;
  while (!table.done()) {
    at += table.next();
    auto delta = static_cast<std::int8_t>(table.next());
    bool none = delta == -128;
    if (!none) line += delta;
    if (instruction * 2 < at) return none ? std::nullopt : as_line(line);
  }
  return std::nullopt;
}

// Up to 3.9: a line begins after the bytes added before it.
std::optional<std::uint32_t> line_in_numbers(Table table, std::int64_t line, std::uint64_t offset) {
  std::uint64_t at = 0;
  while (!table.done()) {
    at += table.next();
    if (at > offset) break;
    line += static_cast<std::int8_t>(table.next());
  }
  return as_line(line);
}

/// What a file with CPython contains; addresses in the process, 0 if missing.
struct PythonSymbols {
  std::uint64_t runtime = 0, number = 0;
  std::optional<unsigned> since;  // no older than 3.N
  std::uint64_t code_type = 0, text_type = 0, bytes_type = 0;
};

// Functions new in a version, newest first: up to 3.10 no symbol has the version itself.
struct NewFunction {
  std::string_view name;
  unsigned minor;
};
constexpr std::array<NewFunction, 3> kNewFunctions = {
    {{"PyModule_AddObjectRef", 10}, {"PyModule_AddType", 9}, {"PyCode_NewWithPosOnlyArgs", 8}}};

std::optional<PythonSymbols> python_symbols(const ElfFile& elf, std::uint64_t begin) {
  constexpr std::array<std::string_view, 9> kNames = {
      "_PyRuntime",    "Py_Version",          "PyCode_Type",         "PyUnicode_Type",     "PyBytes_Type",
      "Py_GetVersion", kNewFunctions[0].name, kNewFunctions[1].name, kNewFunctions[2].name};
  ElfSymbols symbols = find_elf_symbols(elf, kNames);
  auto at = [&](std::string_view name) -> std::uint64_t {
    auto found = symbols.values.find(std::string(name));
    return found == symbols.values.end() ? 0 : found->second + (elf.fixed_address() ? 0 : begin);
  };
  PythonSymbols out{at("_PyRuntime"),  at("Py_Version"),     std::nullopt,
                    at("PyCode_Type"), at("PyUnicode_Type"), at("PyBytes_Type")};
  // A stripped executable still has sections.
  if (!out.runtime)
    if (auto section = elf.section_address(".PyRuntime"))
      out.runtime = *section + (elf.fixed_address() ? 0 : begin);
  if (!out.runtime && !at("Py_GetVersion")) return std::nullopt;
  for (const NewFunction& f : kNewFunctions)
    if (!out.since && at(f.name)) out.since = f.minor;
  return out;
}

MappedFile mapped_file(UniqueFd fd, std::span<const Mapping> maps, const Mapping& head) {
  MappedFile out{std::move(fd), {}};
  std::ranges::copy_if(maps, std::back_inserter(out.mappings),
                       [&](const Mapping& m) { return m.inode == head.inode && m.device == head.device; });
  return out;
}

Result<Python> identify(const ProcessMemory& memory, const MappedFile& file, const PythonSymbols& symbols) {
  auto with_types = [&](Python python) {
    python.objects.code_type = symbols.code_type;
    python.objects.text_type = symbols.text_type;
    python.objects.bytes_type = symbols.bytes_type;
    return python;
  };
  if (symbols.runtime && memory.read<std::uint64_t>(symbols.runtime) == kDebugCookie) {
    std::array<std::uint64_t, kDebugOffsetWords> words{};
    if (!memory.read(symbols.runtime, std::as_writable_bytes(std::span(words))))
      return Error::failed("a CPython whose table of offsets cannot be read");
    auto python = layout_from(words);
    if (!python) return Error::failed("a CPython that cannot be read: " + python.error().message);
    return with_types(*std::move(python));
  }
  PythonVersion version{3, 0, std::nullopt};
  if (symbols.number) {
    std::uint32_t hex = 0;  // a constant
    if (!file.read(symbols.number, std::as_writable_bytes(std::span(&hex, 1))))
      return Error::failed("a CPython whose version cannot be read");
    version = {hex >> 24 & 255, hex >> 16 & 255, hex >> 8 & 255};
  } else if (symbols.since) {
    version.minor = *symbols.since;
  } else {
    return Error::failed("a CPython before 3.8, whose layout is not known");
  }
  auto python = layout_of(version);
  if (!python)
    return Error::failed(
        fmt::format("the layout of CPython {}.{} is not known", version.major, version.minor));
  return with_types(*std::move(python));
}

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18 & 7));
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

std::string utf8_of(std::span<const std::byte> raw, std::size_t width) {
  std::string out;
  for (std::size_t i = 0; i + width <= raw.size(); i += width) {
    std::uint32_t c = 0;
    std::memcpy(&c, raw.data() + i, width);
    append_utf8(out, c);
  }
  return out;
}

// `begin`: address of the first instruction; 0: `at` is an index.
std::optional<std::uint32_t> line_at(PythonObjects::Lines kind, std::span<const std::byte> table,
                                     std::uint32_t first_line, std::uint64_t begin, std::uint64_t at) {
  std::uint64_t instruction = 0;  // the first one before it has started
  if (begin) {
    // Threads may run copies of the code at other addresses.
    if (at + 2 < begin) return std::nullopt;
    if (at > begin) instruction = (at - begin) / 2;
  } else if (auto number = static_cast<std::uint32_t>(at); number != UINT32_MAX) {
    instruction = number;
  }
  return line_of(kind, table, first_line, instruction);
}

}  // namespace

PythonFinding find_python(const ProcessMemory& memory, std::span<const Mapping> maps) {
  PythonFinding out;
  std::size_t looked_at = 0;
  for (const Mapping& m : maps) {
    bool first = looked_at == 0 && m.inode != 0;  // the executable, whatever its name
    if (m.inode == 0 || m.offset != 0 || !(first || may_hold_python(m.path))) continue;
    if (++looked_at > 16) break;
    auto file = memory.open_file(m);
    auto elf = file ? ElfFile::open(file->fd.get()) : std::nullopt;
    auto symbols = elf ? python_symbols(*elf, m.begin) : std::nullopt;
    if (!symbols) continue;
    MappedFile mapped = mapped_file(std::move(file->fd), maps, m);
    auto python = identify(memory, mapped, *symbols);
    if (!python) {
      out.why_not = python.error().message;
      continue;
    }
    out.file = std::move(mapped);
    out.python = *std::move(python);
    out.python->file = m.path;
    out.python->layout.interpreters += symbols->runtime;
    out.why_not.clear();
    return out;
  }
  return out;
}

std::optional<std::uint32_t> line_of(PythonObjects::Lines kind, std::span<const std::byte> table,
                                     std::uint32_t first_line, std::uint64_t instruction) {
  switch (kind) {
    case PythonObjects::Lines::numbered:
      return line_in_numbers(Table(table), first_line, instruction);
    case PythonObjects::Lines::ranges:
      return line_in_ranges(Table(table), first_line, instruction);
    case PythonObjects::Lines::locations:
      break;
  }
  return line_in_locations(Table(table), first_line, instruction);
}

std::optional<std::vector<std::byte>> PythonCode::bytes_at(std::uint64_t address) const {
  auto size = memory_.read<std::uint64_t>(address + objects_.bytes_size);
  if (!size || *size > kMaxLineTable) return std::nullopt;
  std::vector<std::byte> out(*size);
  if (!out.empty() && !memory_.read(address + objects_.bytes_data, out)) return std::nullopt;
  return out;
}

std::optional<std::string> python_text(const ProcessMemory& memory, const PythonObjects& objects,
                                       std::uint64_t address) {
  auto length = memory.read<std::uint64_t>(address + objects.text_length);
  auto state = memory.read<std::uint32_t>(address + objects.text_state);
  if (!length || !state) return std::nullopt;
  std::uint32_t kind = *state >> objects.text_kind_bit;
  std::size_t width = kind & 7;
  bool compact = kind >> 3 & 1, ascii = kind >> 4 & 1;
  if (!compact || *length > kMaxText || (width != 1 && width != 2 && width != 4)) return std::nullopt;
  std::size_t count = *length;
  std::vector<std::byte> raw(count * width);
  if (count && !memory.read(address + (ascii ? objects.text_ascii : objects.text_compact), raw))
    return std::nullopt;
  return utf8_of(raw, width);
}

// Freeing an object overwrites its header: the reference count, or count and type. The count has 32 bits, and
// above bit 48 there may be flags.
bool PythonCode::is_alive(std::uint64_t object, std::uint64_t& type, std::string_view name) {
  auto is = memory_.read<std::uint64_t>(object + objects_.object_type);
  if (!is || !*is) return false;
  if (objects_.counted) {
    auto count = memory_.read<std::uint64_t>(object);
    if (!count || !static_cast<std::uint32_t>(*count) || (*count >> 32 & 0xffff)) return false;
  }
  if (type) return *is == type;
  std::array<char, 8> called{};
  auto at = memory_.read<std::uint64_t>(*is + objects_.type_name);
  if (!at || !memory_.read(*at, std::as_writable_bytes(std::span(called).first(name.size() + 1))) ||
      called.data() != name)
    return false;
  type = *is;
  return true;
}

std::optional<PythonCode::Code> PythonCode::read(const wire::PythonFrame& frame) {
  auto file = memory_.read<std::uint64_t>(frame.code + layout_.code_file);
  auto name = memory_.read<std::uint64_t>(frame.code + layout_.code_name);
  auto lines = memory_.read<std::uint64_t>(frame.code + layout_.code_lines);
  auto first = memory_.read<std::uint32_t>(frame.code + objects_.code_first_line);
  if (!file || !name || !lines || !first || wire::python_identity(*file, *name, *lines) != frame.identity)
    return std::nullopt;
  auto file_text = python_text(memory_, objects_, *file), name_text = python_text(memory_, objects_, *name);
  auto table = bytes_at(*lines);
  if (!file_text || !name_text || !table) return std::nullopt;
  // Checked last, so that everything was valid until now.
  if (!is_alive(frame.code, objects_.code_type, "code") || !is_alive(*file, objects_.text_type, "str") ||
      !is_alive(*name, objects_.text_type, "str") || !is_alive(*lines, objects_.bytes_type, "bytes"))
    return std::nullopt;
  return Code{*std::move(file_text), *std::move(name_text), *first, *std::move(table)};
}

std::optional<Frame> PythonCode::resolve(const wire::PythonFrame& frame) {
  auto known = known_.find({frame.code, frame.identity});
  if (known == known_.end()) {
    auto fresh = read(frame);
    if (!fresh) return std::nullopt;
    if (known_.size() >= kMaxCodes || known_bytes_ >= kMaxCodeBytes) {
      known_.clear();
      known_bytes_ = 0;
    }
    known_bytes_ += sizeof(*fresh) + fresh->file.size() + fresh->name.size() + fresh->lines.size();
    known = known_.emplace(std::pair(frame.code, frame.identity), *std::move(fresh)).first;
  }
  const Code& code = known->second;
  return Frame{
      Frame::Kind::python, code.name, code.file,
      line_at(objects_.lines, code.lines, code.first_line,
              objects_.code_instructions ? frame.code + objects_.code_instructions : 0, frame.instruction)};
}

std::vector<CodePlace> places_of(const wire::DyingCode& code) {
  std::vector<CodePlace> out;
  if (code.lines > static_cast<unsigned>(PythonObjects::Lines::locations)) return out;
  auto text = [](const wire::DyingCode::Text& t) { return (t.cut ? "…" : "") + utf8_of(t.data, t.width); };
  for (const wire::DyingCode::Frame& f : code.frames) {
    if (!f.file || !f.name) continue;
    out.push_back({text(*f.name), text(*f.file),
                   line_at(static_cast<PythonObjects::Lines>(code.lines), f.lines, f.first_line,
                           code.code_instructions ? f.code + code.code_instructions : 0, f.instruction)});
  }
  return out;
}

}  // namespace oomcast
