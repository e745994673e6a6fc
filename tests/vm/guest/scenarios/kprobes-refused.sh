# kprobes cannot be attached, as on a kernel built without them: neither by perf_event_open (its PMU is not to be
# found) nor by tracefs (kprobe_events takes no writes). debugfs has a second way to tracefs and stays unmounted.
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
mount_cgroup_v2
mount -t tmpfs -o ro none /sys/bus/event_source/devices/kprobe/
touch /tmp/no-kprobe-events
mount --bind /tmp/no-kprobe-events /sys/kernel/tracing/kprobe_events
mount -o remount,bind,ro /sys/kernel/tracing/kprobe_events
expect_kprobes refused
