# kprobes attach without an error and never fire.
mount_tracing
mount_cgroup_v2
echo 0 >/sys/kernel/debug/kprobes/enabled
expect_kprobes silent
