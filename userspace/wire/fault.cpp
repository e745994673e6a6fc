#include "wire/fault.h"

#include <fmt/format.h>
#include <wire.h>

#include <algorithm>
#include <cstring>

#include "wire/decoder.h"

namespace oomcast::wire {
namespace {

constexpr std::array<std::string_view, OC_FAULT_LOST_REASONS> kFaultLostReasons = {
    "faults_ring_full", "allocations_busy", "block_table_full", "frees_ring_full"};

static_assert(kWatched == OC_WATCHED && kAllocates == OC_ALLOCATING_FUNCTIONS &&
              kAllocatorFunctions == OC_ALLOCATOR_FUNCTIONS && kAllocates == OC_FREE &&
              static_cast<int>(Allocates::memalign) == OC_MEMALIGN);
static_assert(sizeof(AllocatorCalls) == sizeof(oc_allocator_calls) &&
              offsetof(AllocatorCalls, bytes) == offsetof(oc_allocator_calls, bytes));

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

void take_stack(const oc_user_stack& r, std::span<const std::byte> stack, UserStack& out) {
  std::copy(std::begin(r.registers), std::end(r.registers), out.registers.begin());
  out.stack.assign(stack.begin(), stack.end());
  out.python_state = state_of(r.python.state);
  for (unsigned i = 0; i < r.python.count; ++i)
    if (const oc_python_frame& f = r.python.frames[i]; f.code)  // a shim between native frames has none
      out.python.push_back({f.code, f.instruction, f.identity, (r.python.entries >> i & 1) != 0});
}

bool is_of_type(std::span<const std::byte> bytes, unsigned type) {
  oc_header header{};
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header.type == type;
}

// Whether it is a whole record of this kind, its stack cut off where it ends; then it is in `out`.
template <typename Record>
bool take_record(std::span<const std::byte> bytes, unsigned type, Record& out) {
  constexpr std::size_t fixed = offsetof(Record, user) + offsetof(oc_user_stack, stack);
  if (bytes.size() < fixed || bytes.size() > sizeof(out) || !is_of_type(bytes, type)) return false;
  std::memcpy(&out, bytes.data(), bytes.size());
  return out.header.size == bytes.size() && out.user.stack_bytes == bytes.size() - fixed &&
         out.user.python.count <= OC_PYTHON_DEPTH;
}

// What all records with a stack have.
template <typename Out, typename Record>
std::optional<Out> take_record(std::span<const std::byte> bytes, unsigned type, const Decoder& d, Record& r) {
  if (!take_record(bytes, type, r)) return std::nullopt;
  Out out;
  take_stack(r.user, bytes.last(r.user.stack_bytes), out);
  out.time = mono_from_ns(r.header.time_ns);
  out.task = d.task(r.task);
  return out;
}

std::optional<Fault> fault_of(std::span<const std::byte> bytes, const Decoder& d) {
  oc_fault r;
  auto out = take_record<Fault>(bytes, OC_FAULT, d, r);
  if (!out) return out;
  out->memory = d.memory(r.memory);
  out->address = r.address;
  out->weight = d.pages(static_cast<std::int64_t>(r.weight_pages));
  out->faults = r.faults;
  return out;
}

std::optional<Allocation> allocation_of(std::span<const std::byte> bytes, const Decoder& d) {
  // A process may ask for any size; sums of these do not overflow.
  constexpr std::int64_t kMax = std::int64_t{1} << 46;
  auto at_most = [](std::uint64_t count) {
    return Bytes{static_cast<std::int64_t>(std::min<std::uint64_t>(count, kMax))};
  };
  oc_allocation r;
  auto out = take_record<Allocation>(bytes, OC_ALLOCATION, d, r);
  if (!out || r.function >= OC_ALLOCATING_FUNCTIONS) return std::nullopt;
  out->born = mono_from_ns(std::min<std::uint64_t>(r.born_ns, r.header.time_ns));
  out->address = r.address;
  out->replaces = r.replaces;
  out->size = at_most(r.bytes);
  out->base = at_most(r.base_bytes);
  out->weight = {std::clamp<std::int64_t>(r.weight_bytes, -kMax, kMax)};
  out->function = static_cast<Allocates>(r.function);
  return out;
}

std::optional<Addition> addition_of(std::span<const std::byte> bytes, const Decoder& d) {
  oc_addition r;
  auto out = take_record<Addition>(bytes, OC_ADDITION, d, r);
  if (!out) return out;
  out->length_at = r.length_at;
  out->length = r.length;
  return out;
}

std::optional<Freed> freed_of(std::span<const std::byte> bytes) {
  oc_freed r;
  if (bytes.size() != sizeof(r)) return std::nullopt;
  std::memcpy(&r, bytes.data(), sizeof(r));
  if (r.header.type != OC_FREED || r.header.size != sizeof(r)) return std::nullopt;
  return Freed{mono_from_ns(r.header.time_ns), r.tgid, r.address};
}

}  // namespace

bool is_fault(std::span<const std::byte> bytes) {
  return is_of_type(bytes, OC_FAULT);
}

bool is_gpu_stack(std::span<const std::byte> bytes) {
  return is_of_type(bytes, OC_GPU_STACK);
}

Result<GpuStack> decode_gpu_stack(std::span<const std::byte> bytes, const Units& units) {
  oc_gpu_stack r;
  if (auto out = take_record<GpuStack>(bytes, OC_GPU_STACK, Decoder(units), r)) return *std::move(out);
  return Error::failed(fmt::format("reading a stack of a GPU call of {} bytes: not one", bytes.size()));
}

Result<FaultRecord> decode_fault(std::span<const std::byte> bytes, const Units& units) {
  Decoder d(units);
  if (auto freed = freed_of(bytes)) return FaultRecord(*freed);
  if (auto fault = fault_of(bytes, d)) return FaultRecord(*std::move(fault));
  if (auto allocation = allocation_of(bytes, d)) return FaultRecord(*std::move(allocation));
  if (auto addition = addition_of(bytes, d)) return FaultRecord(*std::move(addition));
  return Error::failed(
      fmt::format("reading a page fault or an allocation of {} bytes: not one", bytes.size()));
}

std::vector<LivingBlock> decode_living(std::span<const std::byte> keys, std::span<const std::byte> values,
                                       std::uint32_t tgid) {
  std::vector<LivingBlock> out;
  std::size_t count = std::min(keys.size() / sizeof(oc_block_key), values.size() / sizeof(oc_block));
  for (std::size_t i = 0; i < count; ++i) {
    oc_block_key key;
    oc_block block;
    std::memcpy(&key, keys.data() + i * sizeof(key), sizeof(key));
    std::memcpy(&block, values.data() + i * sizeof(block), sizeof(block));
    if (key.tgid == tgid) out.push_back({key.address, mono_from_ns(block.born_ns)});
  }
  return out;
}

std::vector<HeldLock> decode_held_locks(std::span<const std::byte> bytes) {
  std::vector<HeldLock> out;
  for (; bytes.size() >= sizeof(oc_held_lock); bytes = bytes.subspan(sizeof(oc_held_lock))) {
    oc_held_lock lock;
    std::memcpy(&lock, bytes.data(), sizeof(lock));
    out.push_back(
        {static_cast<std::uint32_t>(lock.tgid), lock.owner, Nanos(static_cast<std::int64_t>(lock.ran_ns))});
  }
  return out;
}

std::size_t max_fault_bytes() {
  return std::max(sizeof(oc_fault), sizeof(oc_allocation));
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
  return bytes_of(out);
}

std::uint64_t scope_key(const TaskId& process) {
  return oc_scope_of_process(process.tgid, process.start_ticks);
}

static_assert(kLengthWrites == OC_LENGTH_WRITES &&
              static_cast<int>(WatchedLength::State::open) == OC_LENGTH_OPEN &&
              static_cast<int>(WatchedLength::State::done) == OC_LENGTH_DONE);

std::vector<std::byte> length_key(std::uint32_t tgid, std::uint64_t length_at) {
  return bytes_of(oc_length_key{length_at, tgid});
}

std::vector<std::byte> encode(const WatchedLength& length) {
  return bytes_of(oc_length{0, length.writes, static_cast<unsigned>(length.state)});
}

std::optional<WatchedLength> decode_length(std::span<const std::byte> bytes) {
  oc_length in;
  if (bytes.size() != sizeof(in)) return std::nullopt;
  std::memcpy(&in, bytes.data(), sizeof(in));
  if (in.state > OC_LENGTH_DONE) return std::nullopt;
  return WatchedLength{static_cast<WatchedLength::State>(in.state), in.writes};
}

std::vector<std::byte> encode_baseline(Bytes resident, const Units& units) {
  oc_growth out{};
  out.window = 1;
  out.resident_pages = resident.count / units.page_bytes;
  return bytes_of(out);
}

}  // namespace oomcast::wire
