# Three NUMA nodes, cgroup v2, no swap.
mount_tracing
mount_cgroup_v2
nodes=$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)
[ "$nodes" = 3 ] || fail premise "there are $nodes NUMA nodes"
expect_kprobes fire
