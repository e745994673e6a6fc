#include "wire/records.h"

#include <fmt/format.h>
#include <wire.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/decoder.h"

namespace oomcast::wire {
namespace {

constexpr std::array<std::string_view, OC_LOST_REASONS> kLostReasons = {
    "samples_ring_full",    "events_ring_full",   "cgroup_table_full",     "process_table_full",
    "victim_table_full",    "stall_table_full",   "user_kills_ring_full",  "user_kills_over_rate",
    "exit_kills_over_rate", "dying_code_no_room", "kernel_kills_over_rate"};

// A copy: behind a record of odd length the next one of a batch is not aligned.
template <typename T>
std::optional<T> as(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  std::optional<T> out(std::in_place);
  std::memcpy(&*out, bytes.data(), sizeof(T));
  return out;
}

std::optional<DyingCode::Text> code_text(const oc_python_text& t) {
  if (t.length == ~0ull || t.bytes > sizeof(t.data) || (t.width != 1 && t.width != 2 && t.width != 4))
    return std::nullopt;
  auto* data = reinterpret_cast<const std::byte*>(t.data);
  return DyingCode::Text{{data, data + t.bytes}, t.width, t.length > t.bytes / t.width};
}

DyingCode::Frame code_frame(const oc_python_code& f) {
  auto* lines = reinterpret_cast<const std::byte*>(f.lines);
  std::size_t size = std::min<std::size_t>(f.lines_bytes, sizeof(f.lines));
  return {f.code, f.instruction, f.first_line, code_text(f.file), code_text(f.name), {lines, lines + size}};
}

// Of a record that is as long as what is in it: all of it, and what fills its end.
template <typename T>
struct Filled {
  T record{};
  std::size_t bytes = 0;  // behind the fixed part
};
template <typename T>
std::optional<Filled<T>> filled(std::span<const std::byte> bytes, std::size_t fixed) {
  if (bytes.size() < fixed || bytes.size() > sizeof(T)) return std::nullopt;
  std::optional<Filled<T>> out(std::in_place);
  std::memcpy(&out->record, bytes.data(), bytes.size());
  out->bytes = bytes.size() - fixed;
  return out;
}

std::optional<Record> decode_exec(MonoTime time, std::span<const std::byte> bytes, const Decoder& d) {
  auto got = filled<oc_exec>(bytes, offsetof(oc_exec, args));
  if (!got || got->record.args_bytes != got->bytes) return std::nullopt;
  const oc_exec& r = got->record;
  return Exec{time, d.task(r.task), Decoder::args(r.args, r.args_bytes, r.args_truncated != 0)};
}

std::optional<Record> decode_mark(MonoTime time, std::span<const std::byte> bytes, const Decoder& d) {
  auto got = filled<oc_oom_mark>(bytes, offsetof(oc_oom_mark, chains));
  if (!got) return std::nullopt;
  const oc_oom_mark& r = got->record;
  bool same = r.victim_levels == OC_SAME_CHAIN;
  std::size_t of_victim = same ? 0 : r.victim_levels;
  if (r.levels > OC_CHAIN_LEN || of_victim > OC_CHAIN_LEN ||
      got->bytes != (r.levels + of_victim) * sizeof(oc_memcg))
    return std::nullopt;
  auto chains = std::span(r.chains).first(r.levels + of_victim);
  auto chain = chains.first(r.levels);
  return OomMark{time,
                 d.task(r.victim),
                 d.memory(r.memory),
                 d.task(r.trigger),
                 d.chain(chain),
                 d.chain(same ? chain : chains.subspan(r.levels)),
                 d.owner(r.owner)};
}

Exit make_exit(MonoTime time, const oc_exit& r, const Decoder& d) {
  return {time, d.task(r.task), r.exit_code, r.header.type == OC_VICTIM_EXIT};
}

std::optional<Record> decode_dying(MonoTime time, std::span<const std::byte> bytes, const Decoder& d) {
  auto got = filled<oc_dying>(bytes, offsetof(oc_dying, words));
  if (!got) return std::nullopt;
  const oc_dying& r = got->record;
  if (r.stack_frames > OC_STACK_DEPTH || r.args_bytes > OC_ARGS_LEN) return std::nullopt;
  std::vector<std::uint64_t> stack(r.stack_frames);
  std::size_t stack_bytes = stack.size() * sizeof(stack[0]);
  if (got->bytes != stack_bytes + r.args_bytes) return std::nullopt;
  std::memcpy(stack.data(), r.words, stack_bytes);
  auto* args = reinterpret_cast<const char*>(r.words + stack_bytes);
  return Dying{time, d.task(r.task), d.memory(r.memory),
               Decoder::args(args, r.args_bytes, r.args_truncated != 0), std::move(stack)};
}

DyingCode make_dying_code(MonoTime time, const oc_dying_code& r, const Decoder& d) {
  DyingCode out{time, d.task(r.task), r.lines, r.code_instructions, {}};
  for (const oc_python_code& f : r.frames)
    if (f.code) out.frames.push_back(code_frame(f));
  return out;
}

OomDecision make_decision(MonoTime time, const oc_oom_decision& r, const Decoder& d) {
  OomDecision out{time,       d.task(r.trigger), d.task(r.victim), Decoder::cgroup(r.limit_cgroup_id),
                  r.gfp_mask, r.order,           std::nullopt};
  if (r.constraint <= 3) out.constraint = static_cast<OomDecision::Constraint>(r.constraint);
  return out;
}

// What comes through the ring "samples". A type whose size or content is not the contract's falls through to
// the end.
std::optional<Record> decode_sample(const oc_header& h, std::span<const std::byte> bytes, const Decoder& d) {
  MonoTime time = mono_from_ns(h.time_ns);
  switch (h.type) {
    case OC_CGROUP_SAMPLE:
      if (auto r = as<oc_cgroup_sample>(bytes))
        return CgroupSample{time, d.memcg(r->memcg), Decoder::cgroup(r->parent_id), r->moved != 0};
      break;
    case OC_PROCESS_SAMPLE:
      if (auto r = as<oc_process_sample>(bytes))
        return ProcessSample{time, d.task(r->task), d.memory(r->memory)};
      break;
    case OC_FORK:
      if (auto r = as<oc_fork>(bytes)) return Fork{time, d.task(r->child)};
      break;
    case OC_EXEC:
      return decode_exec(time, bytes, d);
    case OC_EXIT:
      if (auto r = as<oc_exit>(bytes)) return make_exit(time, *r, d);
      break;
    case OC_CGROUP_EVENT:
      if (auto r = as<oc_cgroup_event>(bytes); r && r->op >= OC_CGROUP_MKDIR && r->op <= OC_CGROUP_RENAME)
        return CgroupEvent{time, static_cast<CgroupEvent::Op>(r->op - OC_CGROUP_MKDIR), r->id,
                           Decoder::cgroup(r->parent_id), bounded_string(r->name, sizeof(r->name))};
      break;
    case OC_CGROUP_ATTACH:
      if (auto r = as<oc_cgroup_attach>(bytes)) return CgroupAttach{time, d.task(r->task), r->to_id};
      break;
    default:
      break;
  }
  return std::nullopt;
}

// What comes through the rings "events" and "user_kills".
std::optional<Record> decode_event(const oc_header& h, std::span<const std::byte> bytes, const Decoder& d) {
  MonoTime time = mono_from_ns(h.time_ns);
  switch (h.type) {
    case OC_OOM_MARK:
      return decode_mark(time, bytes, d);
    case OC_KERNEL_KILL:
      if (auto r = as<oc_kernel_kill>(bytes))
        return KernelKill{time, d.task(r->victim), d.memory(r->memory), d.task(r->sender)};
      break;
    case OC_DYING:
      return decode_dying(time, bytes, d);
    case OC_VICTIM_EXIT:
      if (auto r = as<oc_exit>(bytes)) return make_exit(time, *r, d);
      break;
    case OC_DYING_CODE:
      if (auto r = as<oc_dying_code>(bytes)) return make_dying_code(time, *r, d);
      break;
    case OC_USER_KILL:
      if (auto r = as<oc_user_kill>(bytes))
        return UserKill{time,
                        d.task(r->victim),
                        d.task(r->sender),
                        r->no_siginfo ? std::nullopt : std::optional(r->si_code),
                        r->may_kill_anybody != 0,
                        r->by_tracer != 0};
      break;
    case OC_REAPER:
      if (auto r = as<oc_reaper>(bytes); r && r->op >= OC_REAP_QUEUED && r->op <= OC_REAP_SKIPPED)
        return Reaper{time, static_cast<Reaper::Op>(r->op - OC_REAP_QUEUED), r->tid};
      break;
    case OC_OOM_DECISION:
      if (auto r = as<oc_oom_decision>(bytes)) return make_decision(time, *r, d);
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

Result<Record> decode(std::span<const std::byte> bytes, const Units& units) {
  auto header = as<oc_header>(bytes.first(std::min(bytes.size(), sizeof(oc_header))));
  if (!header || header->size != bytes.size())
    return Error::failed(
        fmt::format("reading a kernel record of {} bytes: its header does not fit", bytes.size()));
  Decoder decoder(units);
  auto record = header->type < OC_OOM_MARK ? decode_sample(*header, bytes, decoder)
                                           : decode_event(*header, bytes, decoder);
  if (!record)
    return Error::failed(fmt::format("reading a kernel record of type {}, {} bytes: no record of this build",
                                     header->type, bytes.size()));
  return *std::move(record);
}

Result<GpuCall> decode_gpu_call(std::span<const std::byte> bytes, const Units& units) {
  auto r = as<oc_gpu_call>(bytes);
  bool ours = r && r->header.type == OC_GPU_CALL && r->header.size == bytes.size() &&
              r->syscall >= OC_GPU_IOCTL && r->syscall <= OC_GPU_MUNMAP && r->device <= OC_GPU_UVM &&
              r->head_bytes <= OC_GPU_HEAD_LEN && r->tail_bytes <= OC_GPU_TAIL_LEN &&
              r->params_bytes <= OC_GPU_PARAMS_LEN;
  if (!ours)
    return Error::failed(
        fmt::format("reading a GPU record of {} bytes: no record of this build", bytes.size()));
  auto copy = [](const unsigned char* from, std::size_t size) {
    auto* begin = reinterpret_cast<const std::byte*>(from);
    return std::vector<std::byte>(begin, begin + size);
  };
  GpuCall out;
  out.time = mono_from_ns(r->header.time_ns);
  out.task = Decoder(units).task(r->task);
  out.call = static_cast<GpuCall::Call>(r->syscall - OC_GPU_IOCTL);
  out.device = static_cast<GpuCall::Device>(r->device);
  out.minor = r->minor;
  out.command = r->command;
  out.result = r->result;
  out.file = r->file;
  out.address = r->address;
  out.length = r->length_bytes;
  out.head = copy(r->head, r->head_bytes);
  out.tail = copy(r->tail, r->tail_bytes);
  out.params = copy(r->params, r->params_bytes);
  return out;
}

bool is_gpu_code(std::span<const std::byte> bytes) {
  auto r = as<oc_dying_code>(bytes);
  return r && r->header.type == OC_GPU_CODE;
}

Result<DyingCode> decode_gpu_code(std::span<const std::byte> bytes, const Units& units) {
  auto r = as<oc_dying_code>(bytes);
  if (!r || r->header.type != OC_GPU_CODE || r->header.size != bytes.size())
    return Error::failed(
        fmt::format("reading Python code of {} bytes: no record of this build", bytes.size()));
  return make_dying_code(mono_from_ns(r->header.time_ns), *r, Decoder(units));
}

Result<GpuXid> decode_gpu_xid(std::span<const std::byte> bytes) {
  auto r = as<oc_gpu_xid>(bytes);
  if (!r || r->header.type != OC_GPU_XID || r->header.size != bytes.size())
    return Error::failed(
        fmt::format("reading a GPU error of {} bytes: no record of this build", bytes.size()));
  return GpuXid{mono_from_ns(r->header.time_ns), r->code, bounded_string(r->bus, sizeof(r->bus)),
                bounded_string(r->message, sizeof(r->message))};
}

std::span<const std::string_view> lost_reasons() {
  return kLostReasons;
}
std::size_t max_record_bytes() {
  return sizeof(oc_dying_code);
}
std::size_t stalls_bytes() {
  return sizeof(oc_stalls);
}

Stalls decode_stalls(std::span<const std::byte> bytes, const Units& units) {
  oc_stalls s{};
  std::memcpy(&s, bytes.data(), std::min(bytes.size(), sizeof(s)));
  return {s.count, Nanos(static_cast<std::int64_t>(s.time_ns)),
          Decoder(units).pages(static_cast<std::int64_t>(s.reclaimed_pages))};
}

}  // namespace oomcast::wire
