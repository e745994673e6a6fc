// Against types that a test makes: no machine has all forms.
#include "collect/kernel_features.h"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fixture_tree.h"

namespace oomcast {
namespace {

struct Delete {
  void operator()(btf* types) const { btf__free(types); }
};

class Types {
 public:
  Types() : types_(btf__new_empty()) {
    number_ = btf__add_int(types_.get(), "int", 4, BTF_INT_SIGNED);
    task_ = btf__add_ptr(types_.get(), btf__add_struct(types_.get(), "task_struct", 8));
  }
  // As the kernel has them: a typedef of a pointer to a function, whose first argument is for the program.
  void tracepoint(const std::string& name, bool passes_task) {
    int function = btf__add_func_proto(types_.get(), 0);
    btf__add_func_param(types_.get(), "__data", task_);
    btf__add_func_param(types_.get(), "victim", passes_task ? task_ : number_);
    int pointer = btf__add_ptr(types_.get(), function);
    btf__add_typedef(types_.get(), ("btf_trace_" + name).c_str(), pointer);
  }
  void helper(const std::string& name) {
    btf__add_enum(types_.get(), "bpf_func_id", 4);
    btf__add_enum_value(types_.get(), "BPF_FUNC_unspec", 0);
    btf__add_enum_value(types_.get(), name.c_str(), 175);
  }
  void structure(const std::string& name) { btf__add_struct(types_.get(), name.c_str(), 8); }
  void function(const std::string& name) {
    btf__add_func(types_.get(), name.c_str(), BTF_FUNC_GLOBAL, btf__add_func_proto(types_.get(), number_));
  }

  KernelFeatures read(bool kprobes = false) {
    FixtureTree tree;
    __u32 size = 0;
    const void* bytes = btf__raw_data(types_.get(), &size);
    tree.write("sys/kernel/btf/vmlinux", std::string(static_cast<const char*>(bytes), size));
    if (kprobes) tree.write("sys/bus/event_source/devices/kprobe/type", "6\n");
    auto features = read_kernel_features(tree.roots());
    EXPECT_TRUE(features.ok());
    return features ? *features : KernelFeatures{};
  }

 private:
  std::unique_ptr<btf, Delete> types_;
  int number_ = 0, task_ = 0;
};

TEST(KernelFeatures, are_what_the_kernels_types_have) {
  Types types;
  types.tracepoint("signal_generate", false);
  types.tracepoint("mark_victim", true);
  types.helper("BPF_FUNC_task_pt_regs");
  types.helper("BPF_FUNC_find_vma");
  types.structure("bpf_uprobe_multi_link");
  types.function("bpf_iter_cgroup");
  types.function("bpf_rdonly_cast");
  KernelFeatures f = types.read(true);
  EXPECT_EQ(f.tracepoints, (std::set<std::string, std::less<>>{"mark_victim", "signal_generate"}));
  for (const KernelFeature& feature : kernel_features()) EXPECT_TRUE(f.*feature.there) << feature.name;
  for (auto [name, section] :
       {std::pair("on_mark_victim", "tp_btf/mark_victim"), std::pair("walk_cgroups", "iter/cgroup"),
        std::pair("on_fault", "?perf_event"), std::pair("on_oom_kill_process", "kprobe/oom_kill_process")})
    EXPECT_EQ(why_not_used(name, section, f), "");
  EXPECT_NE(why_not_used("on_mark_victim_pid", "tp_btf/mark_victim", f), "") << "two would tell it twice";
  EXPECT_NE(why_not_used("on_fault_before_5_15", "?perf_event", f), "");
  EXPECT_EQ(why_not_used("begin_walk", "?raw_tp", f), "");
  EXPECT_NE(why_not_used("begin_walk_before_5_17", "?raw_tp", f), "");
}

TEST(KernelFeatures, are_none_where_the_types_have_none) {
  Types types;
  types.tracepoint("mark_victim", false);
  types.helper("BPF_FUNC_ringbuf_output");
  types.structure("bpf_iter_cgroup");  // a function is asked for
  types.structure("bpf_rdonly_cast");
  types.function("bpf_uprobe_multi_link");
  KernelFeatures f = types.read();
  for (const KernelFeature& feature : kernel_features()) EXPECT_FALSE(f.*feature.there) << feature.name;
  EXPECT_EQ(why_not_used("on_mark_victim_pid", "tp_btf/mark_victim", f), "");
  EXPECT_EQ(why_not_used("on_fault_before_5_15", "?perf_event", f), "");
  EXPECT_EQ(why_not_used("begin_walk_before_5_17", "?raw_tp", f), "");
  EXPECT_NE(why_not_used("begin_walk", "?raw_tp", f), "");
  for (auto [name, section] :
       {std::pair("on_mark_victim", "tp_btf/mark_victim"), std::pair("walk_cgroups", "iter/cgroup"),
        std::pair("on_fault", "?perf_event"), std::pair("on_oom_kill_process", "kprobe/oom_kill_process"),
        std::pair("on_rss_stat", "tp_btf/rss_stat")})
    EXPECT_NE(why_not_used(name, section, f), "") << name;
}

TEST(KernelFeatures, without_types_is_an_error_that_says_what_the_kernel_needs) {
  FixtureTree tree;
  tree.write("sys/kernel/btf/vmlinux", "no types");
  for (const Roots& roots : {tree.roots(), Roots{"/nonexistent"}}) {
    auto features = read_kernel_features(roots);
    ASSERT_FALSE(features.ok());
    EXPECT_EQ(features.error().exit_code, 3);
    EXPECT_NE(features.error().message.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
  }
}

}  // namespace
}  // namespace oomcast
