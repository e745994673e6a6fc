#include "model/cgroup_name.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace oomcast {
namespace {

constexpr std::size_t container_id_digits = 64;
constexpr std::size_t short_id_digits = 12;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}
bool all_digits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_digit);
}
bool is_container_id(std::string_view s) {
  return s.size() == container_id_digits && std::all_of(s.begin(), s.end(), is_hex);
}

bool take_prefix(std::string_view& s, std::string_view prefix) {
  if (!s.starts_with(prefix) || s.size() == prefix.size()) return false;
  s.remove_prefix(prefix.size());
  return true;
}
bool take_suffix(std::string_view& s, std::string_view suffix) {
  if (!s.ends_with(suffix) || s.size() == suffix.size()) return false;
  s.remove_suffix(suffix.size());
  return true;
}

// systemd escapes bytes that a unit name may not contain as \xNN. Control characters stay escaped.
std::string decode_unit(std::string_view unit) {
  auto nibble = [](char c) { return is_digit(c) ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    if (unit.substr(i, 2) == "\\x" && i + 3 < unit.size() && is_hex(unit[i + 2]) && is_hex(unit[i + 3])) {
      int byte = nibble(unit[i + 2]) << 4 | nibble(unit[i + 3]);
      if (byte >= 0x20 && byte != 0x7f) {
        out += static_cast<char>(byte);
        i += 3;
        continue;
      }
    }
    out += unit[i];
  }
  return out;
}

bool is_unit(std::string_view component) {
  return take_suffix(component, ".service") || take_suffix(component, ".scope") ||
         take_suffix(component, ".slice") || take_suffix(component, ".socket") ||
         take_suffix(component, ".mount") || take_suffix(component, ".swap");
}

// The 64 digits at the end of "<id>", "docker-<id>", "cri-containerd-<id>" or, if containerd uses the wrong
// cgroup driver, "<slice>:cri-containerd:<id>". Not those of a container's monitor.
std::optional<std::string_view> container_id(std::string_view component) {
  take_suffix(component, ".scope");
  if (is_container_id(component)) return component;
  if (component.size() <= container_id_digits) return std::nullopt;
  std::string_view id = component.substr(component.size() - container_id_digits);
  std::string_view runtime = component.substr(0, component.size() - container_id_digits);
  if (!is_container_id(id) || (!runtime.ends_with('-') && !runtime.ends_with(':'))) return std::nullopt;
  if (runtime.find("conmon") != std::string_view::npos) return std::nullopt;
  return id;
}

// The uid in "pod<uid>" or "kubepods-burstable-pod<uid with underscores>.slice", with or without
// ":<runtime>:<id>".
std::optional<std::string> kubernetes_pod(std::string_view component) {
  component = component.substr(0, component.find(':'));
  take_suffix(component, ".slice");
  if (component.find("kubepods-") != std::string_view::npos) {
    std::size_t at = component.rfind("-pod");
    if (at == std::string_view::npos) return std::nullopt;
    component.remove_prefix(at + 1);
  }
  // A uid has 36 characters; a static pod's is a hash of 32.
  if (!take_prefix(component, "pod") || component.size() < 32) return std::nullopt;
  std::string uid(component);
  std::replace(uid.begin(), uid.end(), '_', '-');
  if (!std::all_of(uid.begin(), uid.end(), [](char c) { return is_hex(c) || c == '-'; })) return std::nullopt;
  return uid;
}

// "machine-libpod_pod_<id>.slice", "libpod_pod_<id>.slice".
std::optional<std::string_view> podman_pod(std::string_view component) {
  if (!take_suffix(component, ".slice")) return std::nullopt;
  std::size_t at = component.find("libpod_pod_");
  if (at == std::string_view::npos) return std::nullopt;
  component.remove_prefix(at + std::string_view("libpod_pod_").size());
  return is_container_id(component) ? std::optional(component) : std::nullopt;
}

// What the parent directory says about the meaning of a component.
enum class Above { other, lxc, slurm, slurm_job };

// Walks a path from the root down.
class Namer {
 public:
  // `end`: where the component ends in the path.
  void component(std::string_view c, std::size_t end) {
    end_ = end;
    const Above above = std::exchange(above_, Above::other);
    if (is_unit(c)) {
      name_.unit = c;
      unit_end_ = end;
    }

    bool is_pod = true;
    if (auto pod = kubernetes_pod(c)) {
      decide(CgroupKind::pod, "pod " + *pod);
      name_.pod = std::move(pod);
      pod_end_ = end;
    } else if (auto podman = podman_pod(c)) {
      decide(CgroupKind::pod, "pod " + std::string(podman->substr(0, short_id_digits)));
      name_.pod = *podman;
      pod_end_ = end;
    } else {
      is_pod = false;
    }
    // No `else`: "<pod slice>:cri-containerd:<id>" is both.
    if (auto id = container_id(c)) return container(*id, id->substr(0, short_id_digits));
    if (auto name = named_container(c, above)) return container(*name, *name);
    if (is_pod || slurm(c, above)) return;
    if (is_unit(c)) return decide(CgroupKind::unit, decode_unit(c));
    if (c == "lxc" || c == "lxc.payload") above_ = Above::lxc;
    tail_.emplace_back(c);
  }

  CgroupName finish() && {
    name_.series_bytes = pod_end_ ? pod_end_ : job_end_ ? job_end_ : name_.container ? 0 : unit_end_;
    if (!decided_) {
      name_.kind = tail_.empty() ? CgroupKind::root : CgroupKind::plain;
      name_.name = tail_.empty() ? "/" : tail_.back();
      return std::move(name_);
    }
    for (const std::string& c : tail_) name_.name += "/" + c;
    return std::move(name_);
  }

 private:
  void decide(CgroupKind kind, std::string name) {
    name_.kind = kind;
    name_.name = std::move(name);
    tail_.clear();
    decided_ = true;
  }

  void container(std::string_view id, std::string_view name) {
    name_.container = id;
    decide(CgroupKind::container, std::string(name));
  }

  // Runtimes whose containers have a name but no id.
  static std::optional<std::string> named_container(std::string_view c, Above above) {
    if (above == Above::lxc) return std::string(c);
    if (take_prefix(c, "lxc.payload.")) return std::string(c);
    // systemd-machined's: nspawn containers, and virtual machines.
    if (take_suffix(c, ".scope") && take_prefix(c, "machine-")) return decode_unit(c);
    return std::nullopt;
  }

  // v1: /slurm[_node]/uid_1000/job_42/step_0/…; v2: …/[node_]slurmstepd.scope/job_42/step_0/user/….
  bool slurm(std::string_view c, Above above) {
    std::string_view rest = c;
    if (c == "slurm" || c.starts_with("slurm_") || c.ends_with("slurmstepd.scope")) {
      above_ = Above::slurm;
      return false;
    }
    if (above == Above::slurm && take_prefix(rest, "uid_") && all_digits(rest)) {
      above_ = Above::slurm;
      return false;
    }
    if (above == Above::slurm && take_prefix(rest, "job_") && all_digits(rest)) {
      above_ = Above::slurm_job;
      name_.slurm_job = rest;
      name_.slurm_step.reset();
      job_end_ = end_;
      decide(CgroupKind::slurm, "job " + std::string(rest));
      return true;
    }
    if (above == Above::slurm_job && take_prefix(rest, "step_")) {
      name_.slurm_step = rest;
      decide(CgroupKind::slurm, "job " + *name_.slurm_job + "." + std::string(rest));
      return true;
    }
    return false;
  }

  CgroupName name_;
  std::size_t end_ = 0, pod_end_ = 0, job_end_ = 0, unit_end_ = 0;
  std::vector<std::string> tail_;  // components after the one that decided
  bool decided_ = false;
  Above above_ = Above::other;
};

}  // namespace

std::string_view to_string(CgroupKind kind) {
  switch (kind) {
    case CgroupKind::root:
      return "root";
    case CgroupKind::plain:
      return "plain";
    case CgroupKind::unit:
      return "unit";
    case CgroupKind::container:
      return "container";
    case CgroupKind::pod:
      return "pod";
    case CgroupKind::slurm:
      return "slurm";
  }
  return "plain";
}

CgroupName name_cgroup(std::string_view path) {
  Namer namer;
  for (std::size_t at = 0, end = 0; at < path.size(); at = end + 1) {
    end = std::min(path.find('/', at), path.size());
    if (end > at) namer.component(path.substr(at, end - at), end);
  }
  return std::move(namer).finish();
}

}  // namespace oomcast
