#include "app/journal.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/escape.h"
#include "base/unix_address.h"
#include "stream/loss_words.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostRunning = 64, kMostReasons = 128;
constexpr std::string_view kError = "3", kWarning = "4";  // of syslog

void forget_arguments(ProcessRef& process) {
  process.cmdline = {};
  process.cmdline_source.reset();
}

OomEvent without_command_lines(OomEvent kill) {
  Episode& e = kill.episode;
  for (Victim& victim : e.victims) forget_arguments(victim.process);
  for (ProcessRef& process : e.also_killed) forget_arguments(process);
  if (e.trigger) forget_arguments(*e.trigger);
  for (GrewProcess& grew : e.grew_most) forget_arguments(grew.process);
  for (GrewFrom& site : e.grew_from.sites) forget_arguments(site.process);
  for (GrownHolder& holder : e.grew_from.holders) forget_arguments(holder.process);
  return kill;
}

// The text without time and type: the journal has its own.
std::string message_of(const Fact& fact, MonoTime time, const ClockMap& clock) {
  std::string text = to_text(fact, clock, {});
  std::string_view rest = text;
  rest.remove_prefix(std::min(format_clock(clock.wall(time)).size(), rest.size()));
  for (std::string_view part : {std::string_view(" "), type_of(fact), std::string_view(" ")}) {
    if (part != " " && rest.starts_with(part)) rest.remove_prefix(part.size());
    if (part == " ") rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
  return std::string(rest);
}

// Not in the middle of a UTF-8 character.
void cut(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  while (most > 0 && (text[most] & 0xc0) == 0x80) --most;
  text.resize(most);
}

Journal::Fields fields_of(std::string_view id, std::string_view priority, std::string message) {
  cut(message, Journal::kLongestMessage);
  return {{"MESSAGE", std::move(message)},
          {"MESSAGE_ID", std::string(id)},
          {"PRIORITY", std::string(priority)},
          {"SYSLOG_IDENTIFIER", "oomcast"}};
}

// Names are untrusted.
void add(Journal::Fields& fields, std::string_view name, std::string_view bytes) {
  if (bytes.empty()) return;
  std::string value = make_harmless(bytes);
  cut(value, Journal::kLongestValue);
  fields.emplace_back(name, std::move(value));
}
void add(Journal::Fields& fields, std::string_view name, const std::optional<std::string>& value) {
  if (value) add(fields, name, std::string_view(*value));
}
void add(Journal::Fields& fields, std::string_view name, const std::optional<Bytes>& value) {
  if (value) fields.emplace_back(name, fmt::format("{}", value->count));
}

void add(Journal::Fields& fields, const CgroupPtr& cgroup) {
  if (!cgroup) return;
  add(fields, "OOMCAST_CGROUP", std::string_view(cgroup->path));
  add(fields, "OOMCAST_CONTAINER", cgroup->name.container);
  add(fields, "OOMCAST_POD", cgroup->name.pod);
  add(fields, "OOMCAST_UNIT", cgroup->name.unit);
  add(fields, "OOMCAST_SLURM_JOB", cgroup->name.slurm_job);
}

}  // namespace

Journal::Journal(std::string socket)
    : path_(std::move(socket)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

void Journal::on(const Fact& fact, const ClockMap& clock) {
  if (auto* kill = std::get_if<OomEvent>(&fact)) send(*kill, clock);
  if (auto* alert = std::get_if<AlertFact>(&fact)) send(*alert, clock);
  if (auto* tick = std::get_if<TickFact>(&fact)) send_losses(tick->time, false, clock);
  if (auto* end = std::get_if<EndFact>(&fact)) send_losses(end->time, true, clock);
  if (auto* lost = std::get_if<LostFact>(&fact)) {
    if (losses_.size() >= kMostReasons && !losses_.contains(lost->reason)) return;
    losses_[lost->reason].waiting += lost->count;
    send_losses(lost->time, false, clock);
  }
}

void Journal::send(const OomEvent& kill, const ClockMap& clock) {
  const Episode& e = kill.episode;
  Fields fields = fields_of(kKillId, kError, message_of(without_command_lines(kill), e.time, clock));
  add(fields, "OOMCAST_EPISODE", std::string_view(e.id));
  if (e.scope) add(fields, "OOMCAST_SCOPE", to_string(*e.scope));
  CgroupPtr in = e.victims.empty() ? nullptr : e.victims.front().process.cgroup;
  add(fields, in ? in : e.limit_cgroup);
  std::size_t room = kMostVictims;
  for (const Victim& victim : e.victims) {
    if (room-- == 0) break;
    if (victim.process.id.tgid)
      fields.emplace_back("OOMCAST_VICTIM_PID", std::to_string(victim.process.id.tgid));
    add(fields, "OOMCAST_VICTIM", std::string_view(victim.process.comm));
  }
  add(fields, "OOMCAST_LIMIT_BYTES", e.limit);
  fields.emplace_back("OOMCAST_COUNT", std::to_string(e.victims.size()));
  send(fields);
}

void Journal::send(const AlertFact& alert, const ClockMap& clock) {
  if (is_told(alert)) return;
  AlertFact shown = alert;
  shown.actions.clear();  // they contain commands
  Fields fields = fields_of(kAlertId, kWarning, message_of(shown, alert.time, clock));
  add(fields, "OOMCAST_RULE", std::string_view(alert.rule));
  add(fields, alert.cgroup);
  if (alert.forecast) add(fields, "OOMCAST_LIMIT_BYTES", alert.forecast->forecast.limit);
  send(fields);
}

// An alert with an action still running is published again when it ends.
bool Journal::is_told(const AlertFact& alert) {
  AlertKey key{alert.time, alert.rule, alert.message};
  auto told = std::ranges::find(running_, key);
  bool again = told != running_.end();
  if (again) running_.erase(told);
  if (std::ranges::find(alert.actions, ActionRun::Result::running, &ActionRun::result) != alert.actions.end())
    running_.push_back(std::move(key));
  if (running_.size() > kMostRunning) running_.pop_front();
  return again;
}

void Journal::send_losses(MonoTime now, bool last, const ClockMap& clock) {
  for (auto& [reason, loss] : losses_) {
    if (!loss.waiting || (!last && loss.sent && now - *loss.sent < kLossEvery)) continue;
    std::uint64_t count = std::exchange(loss.waiting, 0);
    loss.sent = now;
    Fields fields = fields_of(kLossId, kWarning, message_of(LostFact{now, reason, count}, now, clock));
    add(fields, "OOMCAST_REASON", std::string_view(reason));
    fields.emplace_back("OOMCAST_COUNT", std::to_string(count));
    send(fields);
  }
}

std::string Journal::datagram(const Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += name;
    if (value.find('\n') == std::string::npos) {
      out += '=';
    } else {
      out += '\n';
      // 64 bits, little-endian.
      for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>(value.size() >> (8 * i) & 0xff);
    }
    out += value;
    out += '\n';
  }
  return out;
}

void Journal::send(const Fields& fields) {
  auto to = unix_address(path_);
  const std::string bytes = datagram(fields);
  ssize_t sent = -1;
  int error = ENAMETOOLONG;
  if (to) {
    // Not connected, as the journal may be restarted.
    sent =
        sendto(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to->get(), to->length);
    error = errno;
  }
  if (sent >= 0) {
    ever_sent_ = true;
    return;
  }
  bool is_missing = error == ENOENT || error == ECONNREFUSED;
  if (ever_sent_ || !is_missing) {
    ++lost_;
    return;
  }
  if (!std::exchange(noted_, true))
    notice_ = fmt::format("there is no journal at {}: {}", escape_for_terminal(path_), std::strerror(error));
}

}  // namespace oomcast
