// The records' layout as the BPF compiler made it against this compiler's: one header, two compilers.
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <wire.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Member {
  std::string name;
  std::size_t offset, size;
  bool operator==(const Member&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Member& m) {
  return out << m.name << " at " << m.offset << " of " << m.size << " bytes";
}

struct Layout {
  const char* name;
  std::size_t size;
  std::vector<Member> members;
};

#define MEMBER(type, name)                          \
  Member {                                          \
#name, offsetof(type, name), sizeof(type::name) \
  }
#define EACH_1(m, t, a) m(t, a)
#define EACH_2(m, t, a, ...) m(t, a), EACH_1(m, t, __VA_ARGS__)
#define EACH_3(m, t, a, ...) m(t, a), EACH_2(m, t, __VA_ARGS__)
#define EACH_4(m, t, a, ...) m(t, a), EACH_3(m, t, __VA_ARGS__)
#define EACH_5(m, t, a, ...) m(t, a), EACH_4(m, t, __VA_ARGS__)
#define EACH_6(m, t, a, ...) m(t, a), EACH_5(m, t, __VA_ARGS__)
#define EACH_7(m, t, a, ...) m(t, a), EACH_6(m, t, __VA_ARGS__)
#define EACH_8(m, t, a, ...) m(t, a), EACH_7(m, t, __VA_ARGS__)
#define EACH_9(m, t, a, ...) m(t, a), EACH_8(m, t, __VA_ARGS__)
#define EACH_10(m, t, a, ...) m(t, a), EACH_9(m, t, __VA_ARGS__)
#define EACH_11(m, t, a, ...) m(t, a), EACH_10(m, t, __VA_ARGS__)
#define EACH_12(m, t, a, ...) m(t, a), EACH_11(m, t, __VA_ARGS__)
#define EACH_13(m, t, a, ...) m(t, a), EACH_12(m, t, __VA_ARGS__)
#define EACH_14(m, t, a, ...) m(t, a), EACH_13(m, t, __VA_ARGS__)
#define EACH_15(m, t, a, ...) m(t, a), EACH_14(m, t, __VA_ARGS__)
#define EACH_16(m, t, a, ...) m(t, a), EACH_15(m, t, __VA_ARGS__)
#define EACH_17(m, t, a, ...) m(t, a), EACH_16(m, t, __VA_ARGS__)
#define EACH_18(m, t, a, ...) m(t, a), EACH_17(m, t, __VA_ARGS__)
#define LAYOUT(n, type, ...)              \
  Layout {                                \
#type, sizeof(type), {                \
      EACH_##n(MEMBER, type, __VA_ARGS__) \
    }                                     \
  }

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      LAYOUT(4, oc_header, type, size, cpu, time_ns),
      LAYOUT(12, oc_task, tgid, tid, start_ns, parent_tgid, ns_tgid, parent_start_ns, cgroup_id, uid, flags,
             oom_score_adj, _pad, comm),
      LAYOUT(7, oc_memory, anon_pages, file_pages, shmem_pages, swap_entries, total_vm_pages, pgtables_bytes,
             mm_key),
      LAYOUT(6, oc_memcg, id, usage_pages, limit_pages, watermark_pages, oom_lock, oom_group),
      LAYOUT(5, oc_cgroup_sample, header, memcg, parent_id, moved, _pad),
      LAYOUT(3, oc_process_sample, header, task, memory),
      LAYOUT(2, oc_fork, header, child),
      LAYOUT(5, oc_exec, header, task, args_bytes, args_truncated, args),
      LAYOUT(4, oc_exit, header, task, exit_code, _pad),
      LAYOUT(6, oc_cgroup_event, header, op, _pad, id, parent_id, name),
      LAYOUT(3, oc_cgroup_attach, header, task, to_id),
      LAYOUT(8, oc_oom_mark, header, victim, memory, trigger, owner, levels, victim_levels, chains),
      LAYOUT(4, oc_kernel_kill, header, victim, memory, sender),
      LAYOUT(8, oc_dying, header, task, memory, args_bytes, args_truncated, stack_frames, _pad, words),
      LAYOUT(7, oc_user_kill, header, victim, sender, si_code, no_siginfo, may_kill_anybody, by_tracer),
      LAYOUT(3, oc_reaper, header, op, tid),
      LAYOUT(9, oc_oom_decision, header, trigger, victim, limit_cgroup_id, total_pages, gfp_mask, order,
             constraint, _pad),
      LAYOUT(3, oc_stalls, count, time_ns, reclaimed_pages),
      LAYOUT(18, oc_python_layout, interpreters, interpreter_next, interpreter_threads, thread_next,
             thread_id, thread_frame, cframe_frame, frame_code, frame_previous, frame_instruction,
             frame_entry, entry_kind, entry_owner, code_file, code_name, code_lines, _pad, objects),
      LAYOUT(10, oc_python_objects, code_first_line, code_instructions, bytes_size, bytes_data, text_length,
             text_state, text_kind_bit, text_ascii, text_compact, lines),
      LAYOUT(5, oc_python_stack, state, count, _pad, entries, frames),
      LAYOUT(4, oc_python_text, length, width, bytes, data),
      LAYOUT(7, oc_python_code, code, instruction, first_line, lines_bytes, file, name, lines),
      LAYOUT(5, oc_dying_code, header, task, lines, code_instructions, frames),
      LAYOUT(3, oc_python_frame, code, instruction, identity),
      LAYOUT(5, oc_user_stack, registers, stack_bytes, _pad, python, stack),
      LAYOUT(7, oc_fault, header, task, memory, address, weight_pages, faults, user),
      LAYOUT(11, oc_allocation, header, task, address, bytes, base_bytes, weight_bytes, born_ns, replaces,
             function, _pad, user),
      LAYOUT(4, oc_freed, header, tgid, _pad, address),
      LAYOUT(5, oc_addition, header, task, length_at, length, user),
      LAYOUT(2, oc_length_key, at, tgid),
      LAYOUT(3, oc_length, length, writes, state),
      LAYOUT(2, oc_allocator_calls, calls, bytes),
      LAYOUT(2, oc_block_key, address, tgid),
      LAYOUT(5, oc_block, born_ns, base, bytes, weight_bytes, scale),
      LAYOUT(3, oc_held_lock, tgid, owner, ran_ns),
      LAYOUT(9, oc_growth, mm, resident_pages, gathered, faults, wanted, window, thread, thread_faults,
             ahead),
      LAYOUT(17, oc_gpu_call, header, task, syscall, device, minor, command, result, file, address,
             length_bytes, head_bytes, tail_bytes, params_bytes, _pad, head, tail, params),
      LAYOUT(3, oc_gpu_stack, header, task, user),
      LAYOUT(4, oc_gpu_layout, head_bytes, tail_at, tail_bytes, _pad),
      LAYOUT(2, oc_gpu_test_file, device, inode),
      LAYOUT(3, oc_gpu_owner, start_ns, tgid, _pad),
      LAYOUT(4, oc_gpu_activity_key, start_ns, tgid, what, cause),
      LAYOUT(2, oc_gpu_activity, count, bytes),
      LAYOUT(5, oc_gpu_xid, header, code, _pad, bus, message),
  };
  return all;
}

using Btf = std::unique_ptr<btf, decltype(&btf__free)>;
Btf types_of(const char* object) {
  return {btf__parse_elf(object, nullptr), &btf__free};
}

std::vector<Member> members_of(const btf* types, const btf_type* type) {
  std::vector<Member> out;
  for (int i = 0; i < btf_vlen(type); ++i) {
    const btf_member& m = btf_members(type)[i];
    out.push_back({btf__name_by_offset(types, m.name_off),
                   btf_member_bit_offset(type, static_cast<__u32>(i)) / 8,
                   static_cast<std::size_t>(btf__resolve_size(types, m.type))});
  }
  return out;
}

void expect_layout(const btf* types, const Layout& layout, int id) {
  const btf_type* type = btf__type_by_id(types, static_cast<__u32>(id));
  EXPECT_EQ(type->size, layout.size) << layout.name;
  EXPECT_EQ(members_of(types, type), layout.members) << layout.name;
}

TEST(WireLayout, of_the_bpf_compiler_is_the_headers) {
  Btf types = types_of(LAYOUT_OBJECT);
  ASSERT_TRUE(types) << "no types in " << LAYOUT_OBJECT;
  for (const Layout& layout : layouts()) {
    int id = btf__find_by_name_kind(types.get(), layout.name, BTF_KIND_STRUCT);
    ASSERT_GT(id, 0) << layout.name << " is not in layout.bpf.c";
    expect_layout(types.get(), layout, id);
  }
}

TEST(WireLayout, in_the_kernel_programs_is_the_headers) {
  Btf types = types_of(OOMCAST_BPF_OBJECT);
  ASSERT_TRUE(types) << "no types in " << OOMCAST_BPF_OBJECT;
  std::string found;
  for (const Layout& layout : layouts())
    if (int id = btf__find_by_name_kind(types.get(), layout.name, BTF_KIND_STRUCT); id > 0) {
      expect_layout(types.get(), layout, id);
      found += std::string(layout.name) + " ";
    }
  EXPECT_EQ(found,
            "oc_header oc_task oc_memory oc_memcg oc_exec oc_oom_mark oc_dying oc_stalls oc_python_layout "
            "oc_python_objects oc_python_stack oc_python_frame ")
      << "those that a map mentions";
}

TEST(WireLayout, has_no_hidden_padding) {
  for (const Layout& layout : layouts()) {
    std::size_t at = 0;
    for (const Member& m : layout.members) {
      EXPECT_EQ(m.offset, at) << layout.name << "." << m.name
                              << ": a gap before it would carry kernel memory";
      at = m.offset + m.size;
    }
    EXPECT_EQ(at, layout.size) << layout.name;
  }
}

TEST(WireLayout, of_every_struct_in_the_headers_is_tested) {
  std::size_t structs = 0;
  std::istringstream headers(WIRE_HEADERS);
  for (std::string path; std::getline(headers, path, ':');) {
    std::ifstream header(path);
    for (std::string line; std::getline(header, line);) {
      if (!line.starts_with("struct oc_")) continue;
      std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(std::ranges::count(layouts(), name, &Layout::name)) << name;
      ++structs;
    }
  }
  EXPECT_EQ(structs, layouts().size());
}

}  // namespace
