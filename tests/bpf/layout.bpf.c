/* Every record of the wire, so that the BPF compiler tells how it lays them out: the kernel programs' own
 * object names only those that a map or a global function mentions. */
#include <wire.h>

union oc_any_record {
  struct oc_header header;
  struct oc_cgroup_sample cgroup_sample;
  struct oc_process_sample process_sample;
  struct oc_fork fork;
  struct oc_exec exec;
  struct oc_exit exit;
  struct oc_cgroup_event cgroup_event;
  struct oc_cgroup_attach cgroup_attach;
  struct oc_oom_mark oom_mark;
  struct oc_kernel_kill kernel_kill;
  struct oc_dying dying;
  struct oc_user_kill user_kill;
  struct oc_reaper reaper;
  struct oc_oom_decision oom_decision;
  struct oc_stalls stalls;
  struct oc_python_layout python_layout;
  struct oc_python_objects python_objects;
  struct oc_python_stack python_stack;
  struct oc_python_text python_text;
  struct oc_python_code python_code;
  struct oc_dying_code dying_code;
  struct oc_user_stack user_stack;
  struct oc_fault fault;
  struct oc_allocation allocation;
  struct oc_freed freed;
  struct oc_addition addition;
  struct oc_length_key length_key;
  struct oc_length length;
  struct oc_allocator_calls allocator_calls;
  struct oc_block_key block_key;
  struct oc_block block;
  struct oc_held_lock held_lock;
  struct oc_growth growth;
  struct oc_gpu_call gpu_call;
  struct oc_gpu_stack gpu_stack;
  struct oc_gpu_layout gpu_layout;
  struct oc_gpu_test_file gpu_test_file;
  struct oc_gpu_owner gpu_owner;
  struct oc_gpu_activity_key gpu_activity_key;
  struct oc_gpu_activity gpu_activity;
  struct oc_gpu_xid gpu_xid;
} any_record;
