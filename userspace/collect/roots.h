// Where the machine's files are. Everything that reads the machine takes a Roots, so that a test hands in a
// fixture tree and a container hands in the host's mounts (--root DIR).
#pragma once

#include <unistd.h>

#include <string>

namespace oomcast {

struct Roots {
  /// Directory that holds proc and sys, without a trailing slash. Empty: this machine.
  std::string root;

  bool rerooted() const { return !root.empty(); }
  std::string proc() const { return root + "/proc"; }
  /// The kernel's own types (BTF).
  std::string kernel_types() const { return root + "/sys/kernel/btf/vmlinux"; }
  /// Where a path of the (re-rooted) machine is found from here.
  std::string at(const std::string& path) const { return root + path; }
};

/// Whether the kernel offers kprobes to attach by (its PMU for them, since 4.17).
inline bool has_kprobes(const Roots& roots) {
  return ::access(roots.at("/sys/bus/event_source/devices/kprobe/type").c_str(), R_OK) == 0;
}

}  // namespace oomcast
