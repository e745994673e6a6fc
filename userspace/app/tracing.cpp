#include "app/tracing.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "app/leftovers.h"
#include "app/privileges.h"
#include "app/scope.h"
#include "base/print.h"
#include "stream/json.h"

namespace oomcast {
namespace {

bool wants_color(const Options& options) {
  if (options.output.color != ColorChoice::automatic) return options.output.color == ColorChoice::always;
  const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  bool can = terminal && *terminal && std::string_view(terminal) != "dumb";
  return isatty(STDOUT_FILENO) && can && !(refused && *refused);
}

// A run killed with SIGKILL cleans up nothing. Pids of another pid namespace, or from another machine's
// files, do not show which processes are alive.
void sweep_what_runs_left(const Options& options, Session& session,
                          const std::function<void(const std::string&)>& say) {
  Roots roots;
  ProcFs procfs(roots);
  if (!options.sources.root.empty() || procfs.pid_numbers().foreign) return;
  for (const std::string& left : sweep_cgroups(session.model().cgroups(), session.cgroupfs(), procfs))
    say(left);
  sweep_folders("/tmp", [&](std::uint32_t pid) { return is_named_as_we(procfs, pid); });
}

}  // namespace

Result<StopSignals> StopSignals::block(std::initializer_list<int> more) {
  StopSignals out;
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int signal : {SIGINT, SIGTERM, SIGQUIT}) sigaddset(&wanted, signal);
  for (int signal : more) sigaddset(&wanted, signal);
  // Under nohup it is ignored, and must stay so: a blocked signal would still be delivered.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) != 0 || hang_up.sa_handler != SIG_IGN) sigaddset(&wanted, SIGHUP);
  if (sigprocmask(SIG_BLOCK, &wanted, &out.old_) != 0) return Error::from_errno("blocking signals");
  std::signal(SIGPIPE, SIG_IGN);
  out.fd_.reset(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out.fd_) return Error::from_errno("opening a signal descriptor");
  return out;
}

int StopSignals::next() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return 0;
  from_kernel_ = info.ssi_code == SI_KERNEL;
  return seen_ = static_cast<int>(info.ssi_signo);
}

int StopSignals::pending() {
  next();
  return seen_;
}

void StopSignals::restore_in_child() const {
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &old_, nullptr);
}

Output::Output(const Options& options)
    : json_(options.output.json),
      filter_(options.choice, !json_ && options.command == Command::trace),
      style_{!options.output.json && wants_color(options)},
      queue_(STDOUT_FILENO) {}

void Output::write(const Fact& fact, const ClockMap& clock) {
  if (!filter_.wants(fact)) return;
  bool evidence = std::holds_alternative<OomEvent>(fact) || std::holds_alternative<EndFact>(fact);
  std::size_t most = evidence                                  ? OutputQueue::kMaxEvidence
                     : std::holds_alternative<AlertFact>(fact) ? OutputQueue::kMaxAlerts
                                                               : OutputQueue::kMaxBytes;
  write_line(json_ ? to_json(fact, clock) : to_text(fact, clock, style_), most);
}

void Output::write_line(const std::string& line, std::size_t most) {
  if (!line.empty()) queue_.write(line + '\n', most);
}

Status Output::finish() {
  if (queue_.flush()) return Ok{};
  if (queue_.failed()) return stdout_failed();
  return Error::failed("nobody reads stdout: the last lines were not written");
}

void tell_error(const std::string& line) {
  print(stderr, "oomcast: " + line + "\n");
}

std::function<void(const std::string&)> error_lines() {
  return [queue = std::make_shared<OutputQueue>(STDERR_FILENO)](const std::string& line) {
    queue->write("oomcast: " + line + "\n", OutputQueue::kMaxEvidence);
  };
}

std::function<void(const std::string&)> diagnostics(const Options& options) {
  if (options.output.quiet) return [](const std::string&) {};
  return tell_error;
}

Status await_scope(const ScopeOptions& scope, StopSignals& stop,
                   const std::function<void(const std::string&)>& say,
                   const std::function<Status()>& resolve) {
  Status found = resolve();
  if (found || !scope.wait) return found;
  say(fmt::format("waiting for {}", scope.describe()));
  while (!found && !stop.pending()) {
    pollfd wait{stop.fd(), POLLIN, 0};
    poll(&wait, 1, 200);
    found = resolve();
  }
  return found;
}

Result<std::unique_ptr<Session>> open_session(const Options& options, StopSignals& stop, bool has_scope,
                                              const std::function<Status(const Session&)>& before_drop) {
  auto say = diagnostics(options);
  raise_file_limit();
  allow_reserves();
  auto session = Session::open(options, say);
  if (!session) return session.error();
  auto verbose = [&](const std::vector<std::string>& lines) {
    if (options.output.verbose)
      for (const std::string& line : lines) say(line);
  };
  sweep_what_runs_left(options, **session, say);
  for (const Refused& refused : protect_self()) verbose({refused.what + ": " + refused.cost});
  if (has_scope) {
    bool again = false, refused = false, acts = options.alert.acts();
    std::string meant;
    Status scope = await_scope(options.scope, stop, say, [&]() -> Status {
      if (std::exchange(again, true)) (*session)->refresh();
      auto found = (*session)->resolve_scope(options.scope);
      if (!found) return found.error();
      meant = tell_matches(options.scope, *found);
      Status may = acts ? may_act_for(options.scope, *found) : Ok{};
      if (!may && options.scope.wait && !std::exchange(refused, true)) say(may.error().message);
      return may;
    });
    if (!scope && stop.pending()) return std::unique_ptr<Session>();
    if (!scope) return scope.error();
    if (!meant.empty()) say(meant);
  }
  if (before_drop)
    if (Status ok = before_drop(**session); !ok) return ok.error();
  if (!options.store.path.empty()) {
    auto store = StoreWriter::keep(options.store.path, (*session)->run_info(), options.store.limits);
    if (store)
      (*session)->keep_in(*std::move(store), error_lines());
    else
      tell_error(
          fmt::format("nothing is stored: {}; --store DIR names another place, --store none needs none",
                      store.error().message));
  }
  // A recording's journal file is removed at its end, from a directory that may belong to a user.
  bool writes = options.run.memory || options.alert.touch || !options.record.file.empty();
  verbose(drop_privileges(writes, options.alert.exec.has_value()));
  if (auto ok = (*session)->loop().wake_on(stop.fd()); !ok) return ok.error();
  return session;
}

}  // namespace oomcast
