#include "wire/fault.h"

#include <fmt/format.h>
#include <wire.h>

#include "wire/decoder.h"

namespace oomcast::wire {
namespace {

constexpr std::array<std::string_view, OC_FAULT_LOST_REASONS> kFaultLostReasons = {"faults_ring_full"};

PythonState state_of(unsigned state) {
  switch (state) {
    case OC_PYTHON_READ:
      return PythonState::read;
    case OC_PYTHON_NO_THREAD:
      return PythonState::no_thread;
    case OC_PYTHON_CUT:
      return PythonState::cut;
    default:
      return PythonState::none;
  }
}

}  // namespace

Result<Fault> decode_fault(std::span<const std::byte> bytes, const Units& units) {
  constexpr std::size_t fixed = offsetof(oc_fault, stack);
  oc_fault r;
  auto wrong = [&] {
    return Error::failed(fmt::format("reading a page fault of {} bytes: not one", bytes.size()));
  };
  if (bytes.size() < fixed || bytes.size() > sizeof(r)) return wrong();
  std::memcpy(&r, bytes.data(), bytes.size());
  if (r.header.type != OC_FAULT || r.header.size != bytes.size() || r.stack_bytes != bytes.size() - fixed ||
      r.python.count > OC_PYTHON_DEPTH)
    return wrong();
  Decoder d(units);
  Fault out;
  out.time = mono_from_ns(r.header.time_ns);
  out.task = d.task(r.task);
  out.memory = d.memory(r.memory);
  out.address = r.address;
  out.weight = d.pages(static_cast<std::int64_t>(r.weight_pages));
  out.faults = r.faults;
  std::copy(std::begin(r.registers), std::end(r.registers), out.registers.begin());
  out.stack.assign(bytes.begin() + fixed, bytes.end());
  out.python_state = state_of(r.python.state);
  for (unsigned i = 0; i < r.python.count; ++i)
    if (const oc_python_frame& f = r.python.frames[i]; f.code)  // a shim between native frames has none
      out.python.push_back({f.code, f.instruction, f.identity, (r.python.entries >> i & 1) != 0});
  return out;
}

std::size_t max_fault_bytes() {
  return sizeof(oc_fault);
}
std::span<const std::string_view> fault_lost_reasons() {
  return kFaultLostReasons;
}

std::uint64_t python_identity(std::uint64_t file, std::uint64_t name, std::uint64_t lines) {
  return oc_python_identity(file, name, lines);
}

std::vector<std::byte> encode(const PythonLayout& l, const PythonObjects& o) {
  oc_python_layout out{};
  out.interpreters = l.interpreters;
  out.interpreter_next = l.interpreter_next;
  out.interpreter_threads = l.interpreter_threads;
  out.thread_next = l.thread_next;
  out.thread_id = l.thread_id;
  out.thread_frame = l.thread_frame;
  out.cframe_frame = l.cframe_frame.value_or(OC_PYTHON_NO_FIELD);
  out.frame_code = l.frame_code;
  out.frame_previous = l.frame_previous;
  out.frame_instruction = l.frame_instruction;
  out.frame_entry = l.frame_entry;
  out.entry_kind = l.entry == PythonLayout::Entry::each   ? OC_PYTHON_ENTRY_EACH
                   : l.entry == PythonLayout::Entry::flag ? OC_PYTHON_ENTRY_FLAG
                                                          : OC_PYTHON_ENTRY_OWNER;
  out.entry_owner = l.entry_owner;
  out.code_file = l.code_file;
  out.code_name = l.code_name;
  out.code_lines = l.code_lines;
  out.objects = {
      o.code_first_line, o.code_instructions, o.bytes_size, o.bytes_data,   o.text_length,
      o.text_state,      o.text_kind_bit,     o.text_ascii, o.text_compact, static_cast<unsigned>(o.lines)};
  std::vector<std::byte> bytes(sizeof(out));
  std::memcpy(bytes.data(), &out, sizeof(out));
  return bytes;
}

std::vector<std::byte> encode_baseline(Bytes resident, const Units& units) {
  oc_growth out{};
  out.window = 1;
  out.resident_pages = resident.count / units.page_bytes;
  std::vector<std::byte> bytes(sizeof(out));
  std::memcpy(bytes.data(), &out, sizeof(out));
  return bytes;
}

}  // namespace oomcast::wire
