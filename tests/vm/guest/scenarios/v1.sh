# The hybrid layout: memory in a cgroup v1 hierarchy, and a v2 tree beside it that has no memory controller.
mount_tracing
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/memory /sys/fs/cgroup/unified
mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory || fail premise "no cgroup v1 memory hierarchy"
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
grep -qw memory /sys/fs/cgroup/unified/cgroup.controllers && fail premise "cgroup v2 still has the memory controller"
echo 1 >/sys/fs/cgroup/memory/memory.use_hierarchy
expect_kprobes fire
