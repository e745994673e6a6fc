# cgroup v2 and a swap device smaller than the memory.
mount_tracing
mount_cgroup_v2
mkswap /dev/vda >/dev/null && swapon /dev/vda
grep -q ^/dev/vda /proc/swaps || fail premise "no swap on /dev/vda"
expect_kprobes fire
