#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/event_socket.h"
#include "app/journal.h"
#include "app/known_kills.h"
#include "app/metrics_file.h"
#include "app/service_manager.h"
#include "app/snapshots.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "stream/openmetrics.h"

namespace oomcast {
namespace {

// Imports kills from while no daemon ran, from the kernel log and the journal, once at start: a crash, an
// upgrade or a reboot loses no kill that these have.
void keep_past_kills(const Options& options) {
  if (options.store.path.empty() || !options.sources.use_kmsg) return;
  auto known = find_kills(options, std::chrono::system_clock::now(), EpisodeParts::all, false);
  if (known)
    keep_kills(options, known->kills);
  else
    tell_error(fmt::format("kills before this start are not kept: {}", known.error().message));
}

EventSocket::Now state_of(Session& s) {
  return {[&s] {
            std::vector<std::uint64_t> out;
            if (s.model().host_ref()) out.push_back(s.model().host_ref()->id.inode);
            s.model().cgroups().for_each([&](const CgroupState& c) {
              if (out.empty() || c.ref->id.inode != out.front()) out.push_back(c.ref->id.inode);
            });
            return out;
          },
          [&s](std::uint64_t inode) { return newest_facts(s.model(), s.forecasts(), inode); }};
}

// All subscribers to published facts, besides the store.
class Audience {
 public:
  Audience(const Options& options, Session& session, UniqueFd socket) : session_(session) {
    if (socket)
      socket_ = std::make_unique<EventSocket>(session.loop(), std::move(socket), state_of(session),
                                              session.clock());
    set_metrics_file(options.daemon.metrics_file);
  }

  void set_metrics_file(const std::string& path) {
    metrics_file_.reset();
    if (!path.empty()) metrics_file_ = std::make_unique<MetricsFile>(path);
  }

  void on(const Fact& fact) {
    journal_.on(fact, session_.clock());
    metrics_.on(fact);
    if (socket_) socket_->on(fact);
    if (std::holds_alternative<OomEvent>(fact)) next_write_ = {};  // write at the next round after a kill
  }

  void advance() {
    if (socket_) {
      session_.count_lost("reader_slow", socket_->slow() - std::exchange(slow_, socket_->slow()));
      session_.count_lost("reader_no_room", socket_->refused() - std::exchange(refused_, socket_->refused()));
    }
    session_.count_lost("not_in_journal", journal_.lost() - std::exchange(journal_lost_, journal_.lost()));
    if (auto notice = journal_.take_notice()) tell_error(*notice);
    if (!metrics_file_ || session_.now() < next_write_) return;
    next_write_ = session_.now() + kWriteEvery;
    metrics_file_->write(metrics_.render(session_.now(), session_.clock()));
    if (auto error = metrics_file_->take_error()) tell_error(*error);
  }

 private:
  static constexpr Nanos kWriteEvery = std::chrono::seconds(5);

  Session& session_;
  Journal journal_;
  Metrics metrics_;  // without a file, too: a file that a reload names has counts from the start
  std::unique_ptr<EventSocket> socket_;
  std::unique_ptr<MetricsFile> metrics_file_;
  MonoTime next_write_{};
  std::uint64_t slow_ = 0, refused_ = 0, journal_lost_ = 0;  // that were counted
};

// Alerts and the metrics file change at once; other options only at a restart, as kernel programs and the
// store are opened with them.
std::string reload(const Options& options, Session& session, Audience& audience, Options& now) {
  std::vector<const char*> words{"oomcast"};
  for (const std::string& word : options.daemon.words) words.push_back(word.c_str());
  auto parsed = parse_arguments(static_cast<int>(words.size()), words.data(), OOMCAST_VERSION);
  if (!parsed) {
    const std::string& why = parsed.error().message;
    return "not reloaded: " + why.substr(0, why.find('\n'));
  }
  const Options& next = parsed->options;
  if (next.alert.exec && !options.alert.exec)
    return "not reloaded: exec needs privileges that were dropped at the start: restart oomcast";
  bool restart = next.store.path != now.store.path || next.store.limits.size != now.store.limits.size ||
                 next.store.limits.age != now.store.limits.age || next.daemon.socket != now.daemon.socket ||
                 next.sources.root != now.sources.root || next.sources.use_bpf != now.sources.use_bpf ||
                 next.sources.use_kmsg != now.sources.use_kmsg;
  session.set_alerts(next.alert);
  if (next.daemon.metrics_file != now.daemon.metrics_file)
    audience.set_metrics_file(next.daemon.metrics_file);
  now.alert = next.alert;
  now.daemon.metrics_file = next.daemon.metrics_file;
  return restart ? "reloaded; store, sources and socket change at a restart" : "reloaded";
}

std::string status_of(const Session& session) {
  std::string out = "following the machine";
  for (const std::string& source : session.sources())
    out += (&source == &session.sources().front() ? ": " : ", ") + source;
  return out;
}

}  // namespace

Result<int> run_daemon(const Options& options) {
  ServiceManager manager = ServiceManager::from_environment();
  auto stop = StopSignals::block({SIGHUP});
  if (!stop) return stop.error();
  UniqueFd socket;
  if (!options.daemon.socket.empty()) {
    auto listening = EventSocket::listen_at(options.daemon.socket);
    if (!listening) return listening.error();
    socket = *std::move(listening);
  }
  manager.send("STATUS=reading kills of before from the kernel log and the journal");
  keep_past_kills(options);
  auto opened = open_session(options, *stop);
  if (!opened) {
    if (socket) unlink(options.daemon.socket.c_str());
    return opened.error();
  }
  Session& s = **opened;  // no scope is waited for
  Audience audience(options, s, std::move(socket));
  s.start([&](const Fact& fact) { audience.on(fact); });
  manager.send("READY=1\nSTATUS=" + status_of(s));
  Options now = options;
  for (int signal = 0;; signal = stop->next()) {
    if (signal == SIGHUP) {
      manager.send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", s.now().time_since_epoch().count() / 1000));
      std::string said = reload(options, s, audience, now);
      tell_error(said);
      manager.send(fmt::format("READY=1\nSTATUS={}; {}", status_of(s), said));
    } else if (signal != 0) {
      break;
    }
    s.step(s.now() + (manager.watchdog() ? *manager.watchdog() / 4 : Nanos::max() / 4));
    audience.advance();
    manager.progress(s.now());
  }
  manager.send("STOPPING=1");
  s.finish();
  audience.advance();
  return 0;
}

}  // namespace oomcast
