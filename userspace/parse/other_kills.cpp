#include "parse/other_kills.h"

#include <algorithm>
#include <array>

#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::string_view kSigkill = "SIGKILL";

// What stands between the two; nullopt: one of them is not there.
std::optional<std::string_view> between(std::string_view line, std::string_view before,
                                        std::string_view behind) {
  std::size_t from = line.find(before);
  if (from == npos) return std::nullopt;
  line.remove_prefix(from + before.size());
  std::size_t end = line.find(behind);
  if (end == npos || end == 0) return std::nullopt;
  return line.substr(0, end);
}

OtherKill of_cgroup(std::string_view path) {
  OtherKill out;
  out.cgroup = (path.starts_with('/') ? "" : "/") + std::string(path);
  out.signal = kSigkill;
  return out;
}

// "Killed /user.slice/a.scope due to memory pressure for …", "Marked /user.slice/a.scope for killing due to
// …"; of the manager: "a.scope: systemd-oomd killed 29 process(es) in this unit."
std::optional<OtherKill> of_systemd_oomd(std::string_view line) {
  constexpr std::array<std::array<std::string_view, 2>, 2> kWords = {
      {{"Killed /", " due to "}, {"Marked /", " for killing due to "}}};
  for (const auto& [before, behind] : kWords)
    if (auto path = between(line, before, behind)) return of_cgroup(*path);
  std::size_t at = line.find(": systemd-oomd killed ");
  if (at == npos || at == 0) return std::nullopt;
  std::string_view unit = line.substr(0, at);
  unit.remove_prefix(unit.find_last_of(" \t\"") + 1);
  if (unit.find('.') == npos) return std::nullopt;
  OtherKill out;
  out.unit = std::string(unit);
  out.signal = kSigkill;
  return out;
}

// "[talos] Sending SIGKILL to cgroup {…, "cgroup": "/sys/fs/cgroup/kubepods/burstable/pod1"}"
std::optional<OtherKill> of_talos(std::string_view line) {
  constexpr std::string_view kMount = "fs/cgroup", kName = "\"cgroup\":";
  std::size_t at = line.find(kName);
  if (at == npos || line.find("Sending SIGKILL to cgroup") == npos) return std::nullopt;
  auto path = between(line.substr(at + kName.size()), "\"", "\"");
  if (!path) return std::nullopt;
  if (std::size_t mount = path->find(kMount); mount != npos) path->remove_prefix(mount + kMount.size());
  return of_cgroup(*path);
}

// "oomd kill: 47.85 38.77 10.59 system.slice/a.service 7614464 ruleset:[…] … killer:kill_by_pressure": the
// path is behind the three averages of pressure. A dry run kills nothing.
std::optional<OtherKill> of_oomd(std::string_view line) {
  constexpr std::string_view kWords = "oomd kill: ";
  std::size_t at = line.find(kWords);
  if (at == npos || line.find("killer:(dry)") != npos) return std::nullopt;
  line.remove_prefix(at + kWords.size());
  for (int average = 0; average < 3; ++average)
    if (next_field(line).find_first_not_of("0123456789.") != npos) return std::nullopt;
  std::string_view path = next_field(line);
  if (path.empty()) return std::nullopt;
  return of_cgroup(path);
}

// "Sending SIGTERM to the victim": which one it said before.
std::optional<OtherKill> of_nohang(std::string_view line, const std::optional<OtherKill>& chosen) {
  auto signal = between(line, "Sending ", " to the victim");
  if (!signal || !chosen || signal->size() > kSigkill.size()) return std::nullopt;
  OtherKill out = *chosen;
  out.signal = std::string(*signal);
  return out;
}

// "sending SIGTERM to process 4515 uid 1000 "python3": …"
std::optional<OtherKill> of_earlyoom(std::string_view line) {
  constexpr std::string_view kSending = "sending ", kTo = " to process ", kUid = " uid ";
  // Until 1.2: `killing process 27541 "bash" with signal 15: badness 550, VmRSS 7609 MiB`
  constexpr std::string_view kKilling = "killing process ", kWith = "\" with signal ";
  if (std::size_t with = line.find(kWith), begin = line.find(kKilling); begin < with && with != npos) {
    OtherKill out;
    std::string_view process = line.substr(begin + kKilling.size(), with - begin - kKilling.size());
    auto pid = take_number<std::uint32_t>(process);
    if (!pid || *pid == 0 || !take(process, " \"")) return std::nullopt;
    out.pid = *pid;
    out.comm = process;
    out.signal = line.substr(with + kWith.size()).starts_with("9:") ? kSigkill : std::string_view("SIGTERM");
    return out;
  }
  std::size_t at = line.find("sending SIG");
  if (at == npos) return std::nullopt;
  line.remove_prefix(at + kSending.size());
  OtherKill out;
  out.signal = line.substr(0, line.find(' '));
  at = line.find(kTo);
  if (at == npos || out.signal.size() != 7) return std::nullopt;
  line.remove_prefix(at + kTo.size());
  auto pid = take_number<std::uint32_t>(line);
  if (!pid || *pid == 0) return std::nullopt;
  out.pid = *pid;
  if (take(line, kUid)) out.uid = take_number<std::uint32_t>(line);
  std::size_t end = line.find("\": ");
  if (take(line, " \"") && end != npos) out.comm = line.substr(0, end - 2);
  return out;
}

// "… name=train, pid=4515, memory used=1.25GB) was running … Ray killed this worker"
std::optional<OtherKill> of_ray(std::string_view line) {
  constexpr std::string_view kPid = ", pid=", kName = "name=";
  std::size_t at = line.find(kPid);
  if (at == npos || line.find("Ray killed this worker") == npos) return std::nullopt;
  std::string_view number = line.substr(at + kPid.size());
  auto pid = take_number<std::uint32_t>(number);
  if (!pid || *pid == 0) return std::nullopt;
  OtherKill out;
  out.pid = *pid;
  out.signal = "SIGKILL";
  if (std::size_t name = line.rfind(kName, at); name != npos)
    out.comm = line.substr(name + kName.size(), at - name - kName.size());
  return out;
}

// "lowmemorykiller: Kill 'com.example' (4515), …", "Killing 'com.example' (4515), adj 900"
std::optional<OtherKill> of_lowmemorykiller(std::string_view line) {
  std::size_t begin = line.find('\''), end = line.find("' (");
  if (begin == npos || end == npos || end < begin) return std::nullopt;
  std::string_view number = line.substr(end + 3);
  auto pid = take_number<std::uint32_t>(number);
  if (!pid || *pid == 0) return std::nullopt;
  OtherKill out;
  out.pid = *pid;
  out.comm = line.substr(begin + 1, end - begin - 1);
  out.signal = "SIGKILL";
  return out;
}

bool at_one_time(const OtherKill& a, const OtherKill& b) {
  constexpr Nanos kApart = std::chrono::seconds(10);  // less than systemd-oomd waits before it kills again
  auto near = [&](Nanos apart) { return apart <= kApart && apart >= -kApart; };
  if (a.wall && b.wall)
    return a.wall->yearless == b.wall->yearless && near(a.wall->since_epoch - b.wall->since_epoch);
  if (a.since_boot && b.since_boot) return near(*a.since_boot - *b.since_boot);
  return !a.wall && !b.wall && !a.since_boot && !b.since_boot;
}

std::string_view unit_of(const OtherKill& kill) {
  if (kill.unit) return *kill.unit;
  if (!kill.cgroup) return {};
  std::string_view path = *kill.cgroup;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::optional<OtherKill> other_kill_in(std::string_view line, const OtherKiller& killer) {
  struct Reader {
    std::string_view name;
    std::optional<OtherKill> (*read)(std::string_view line);
  };
  constexpr std::array<Reader, 6> kReaders = {{{"systemd-oomd", of_systemd_oomd},
                                               {"earlyoom", of_earlyoom},
                                               {"oomd", of_oomd},
                                               {"Talos", of_talos},
                                               {"Ray's memory monitor", of_ray},
                                               {"lowmemorykiller", of_lowmemorykiller}}};
  auto reader = std::ranges::find(kReaders, killer.name, &Reader::name);
  if (reader == kReaders.end()) return std::nullopt;
  auto out = reader->read(line);
  if (out) out->killer = &killer;
  return out;
}

bool OtherKills::has_said(const OtherKiller& killer) const {
  return std::ranges::find(said_, &killer, &OtherSaid::killer) != said_.end();
}

// "  PID: 4515, name: python3, badness: 871". It may find after that that there is memory again.
void OtherKills::look_for_choice(std::string_view line) {
  constexpr std::string_view kPid = "PID: ", kName = ", name: ", kBadness = ", badness: ";
  std::size_t end = line.rfind(kBadness), at = line.find(kPid);
  if (end == npos || at == npos) return;
  std::string_view rest = line.substr(0, end);
  rest.remove_prefix(std::min(at + kPid.size(), rest.size()));
  auto pid = take_number<std::uint32_t>(rest);
  if (!pid || *pid == 0 || !take(rest, kName)) return;
  chosen_.emplace();
  chosen_->killer = other_killer_named("nohang");
  chosen_->pid = *pid;
  chosen_->comm = std::string(rest);
}

// systemd-oomd's kill is in its own log by the cgroup's path, and in the manager's by the unit's name, in
// either order.
bool OtherKills::is_said_again(const OtherKill& kill) {
  if (kill.killer->name != "systemd-oomd") return false;
  constexpr std::size_t kLookBack = 64;
  std::size_t seen = 0;
  for (auto known = kills_.rbegin(); known != kills_.rend() && seen < kLookBack; ++known, ++seen) {
    bool same = known->killer == kill.killer && known->host == kill.host && unit_of(*known) == unit_of(kill);
    if (!same || !at_one_time(*known, kill)) continue;
    if (known->cgroup && kill.cgroup && known->cgroup != kill.cgroup) continue;
    if (!known->cgroup) known->cgroup = kill.cgroup;
    return true;
  }
  return false;
}

void OtherKills::note(std::string_view text, const LogPrefix& prefix) {
  constexpr std::size_t kNameShown = 160;
  const OtherKiller* killer = other_killer_in(text);
  if (!killer) return;
  ++noted_;
  if (!has_said(*killer)) said_.push_back({killer, std::string(trim(text).substr(0, kNameShown))});
  auto kill = other_kill_in(text, *killer);
  if (!kill && killer->name == "nohang") kill = of_nohang(text, chosen_);
  if (!kill) return;
  kill->wall = prefix.wall;
  kill->since_boot = prefix.since_boot;
  if (prefix.host) kill->host = *prefix.host;
  if (is_said_again(*kill)) return;
  kills_.push_back(*std::move(kill));
  if (kills_.size() <= kMost) return;
  kills_.pop_front();
  ++dropped_;
}

}  // namespace oomcast
