# cgroup v2 with the memory controller, kprobes that work, no swap: what a current distribution gives.
mount_tracing
mount_cgroup_v2
expect_kprobes fire
