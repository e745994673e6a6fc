// A day of a busy service in simulated time: what is kept of those that are gone does not add up.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <thread>

#include "app/publisher.h"
#include "model/machine.h"
#include "model/machine_model.h"
#include "sanitized.h"
#include "store/kept_store.h"

// Debian's GCC has the function without its header.
#ifdef OOMCAST_SANITIZED
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace oomcast {
namespace {

using namespace test;
using namespace std::chrono_literals;

std::size_t in_sqlite() {
  return static_cast<std::size_t>(sqlite3_memory_used());
}

/// Without SQLite's, which takes over a megabyte for as long as the store's thread thins what is old.
std::size_t allocated() {
#ifdef OOMCAST_SANITIZED
  return __sanitizer_get_current_allocated_bytes() - in_sqlite();
#else
  return mallinfo2().uordblks - in_sqlite();
#endif
}

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                                std::filesystem::directory_iterator()));
}

/// Five new processes a second that live for ten, a container each ten seconds that lives for five minutes,
/// an OOM kill each five minutes (in the first hour each 6 s), so that lists of the last ones are full then;
/// all of it is stored, and the clock is set now and then.
class Service {
 public:
  static constexpr std::int64_t kBetweenKills = 300, kBetweenSteps = 3000;
  static constexpr Nanos kDay = 24h;

  Service(const std::string& directory, StoreLimits limits) : model_(config()) {
    RunInfo run{"0.1.0",      "6.1", "whole machine", Hierarchy::v2, 10s, zero_, zero_, 10ms,
                std::nullopt, 0,     "boot-1"};
    auto store = StoreWriter::keep(directory, run, limits);
    EXPECT_TRUE(store) << store.error().message;
    publisher_.keep_in(*std::move(store), [](const std::string& line) { ADD_FAILURE() << line; });
    publisher_.subscribe([this](const Fact& f) { kills_ += std::holds_alternative<OomEvent>(f); });
    publisher_.start(registry_config());
    model_.on_cgroup({{Hierarchy::v2, 1}, std::nullopt, "/"});
    model_.on_cgroup({{Hierarchy::v2, 2}, CgroupId{Hierarchy::v2, 1}, "/svc"});
  }

  void second(std::int64_t s) {
    MonoTime now = ms(s * 1000);
    if (s % 10 == 0) containers(s);
    for (std::uint32_t n = 0; n < 5; ++n) begin_process(s, n);
    while (!running_.empty() && running_.front().first <= s - 10) {
      wire::Exit exit;
      exit.time = now;
      exit.task = running_.front().second;
      model_.on_record(exit);
      ProcessRef process;
      process.id = exit.task.id;
      tell(ExitFact{now, process});
      running_.pop_front();
    }
    if (s % kBetweenSteps == kBetweenSteps - 1) publisher_.set_clock(zero_ + (++steps_ % 2) * 20min);
    std::int64_t between = s < 3600 ? kBetweenKills / 50 : kBetweenKills;
    if (s % between == between - 1) kill(s);
    model_.advance(now);
    for (ModelEvent& event : model_.take()) {
      if (auto* hit = std::get_if<LimitHit>(&event)) tell(TickFact{now, std::move(hit->owner)});
      if (auto* dropped = std::get_if<CgroupDropped>(&event))
        tell(ForgottenFact{now, {Hierarchy::v2, dropped->inode}});
      if (auto* fact = std::get_if<ModelFact>(&event))
        std::visit(
            [this](auto&& f) {
              if constexpr (std::is_same_v<std::decay_t<decltype(f)>, Episode>)
                tell(OomEvent{std::move(f), {}, {}});
              else
                tell(std::move(f));
            },
            std::move(*fact));
    }
    if (s % 10 == 0) tell(TickFact{now, nullptr});
    // The disk has five minutes of its time for what is five minutes here.
    if (s % kBetweenKills == 0)
      while (publisher_.behind()) std::this_thread::sleep_for(1ms);
  }
  std::uint64_t kills() const { return kills_; }
  std::uint64_t not_stored() const { return publisher_.not_stored(); }
  void end() { publisher_.close_store(); }

 private:
  static ForecastRegistry::Config registry_config() {
    ForecastRegistry::Config out;
    out.interval = 10s;
    return out;
  }
  static MachineConfig config() {
    MachineConfig out;
    out.sources = {true, false, KiB(4)};
    return out;
  }
  void tell(Fact fact) { publisher_.publish(std::move(fact)); }
  void containers(std::int64_t s) {
    MonoTime now = ms(s * 1000);
    auto inode = static_cast<std::uint64_t>(1000 + s);
    model_.on_record(
        wire::CgroupEvent{now, wire::CgroupEvent::Op::mkdir, inode, 2, "docker-" + std::to_string(s)});
    live_.push_back(inode);
    if (live_.size() > 30) {
      model_.on_record(wire::CgroupEvent{now, wire::CgroupEvent::Op::rmdir, live_.front(), 2, ""});
      live_.pop_front();
    }
    for (std::uint64_t at : live_) {
      CgroupReading reading;
      reading.time = now;
      reading.usage = MiB(20 + static_cast<std::int64_t>((at + static_cast<std::uint64_t>(s)) % 7));
      reading.limit = MiB(512);
      MemoryStat stat;
      stat.anon = *reading.usage;
      stat.active_file = stat.inactive_file = Bytes{};
      reading.stat = stat;
      model_.on_reading(at, reading);
    }
  }
  void begin_process(std::int64_t s, std::uint32_t n) {
    wire::Task of = task(1000 + static_cast<std::uint32_t>(s * 5 + n) % 30'000, live_.back());
    of.id.start_ticks = static_cast<std::uint64_t>(s * 100 + n);
    MonoTime now = ms(s * 1000);
    model_.on_record(wire::Fork{now, of});
    model_.on_record(wire::Exec{now, of, wire::Args{{"python3", "job.py", std::string(200, 'x')}, false}});
    model_.on_record(wire::ProcessSample{now, of, memory(MiB(80))});
    running_.emplace_back(s, of);
  }
  void kill(std::int64_t s) {
    const wire::Task& victim = running_.back().second;
    std::vector<wire::Memcg> chain = {level(live_.back(), MiB(512), MiB(512), true),
                                      level(2, GiB(1), std::nullopt)};
    model_.on_record(kernel_kill(ms(s * 1000), victim, victim));
    model_.on_record(mark(ms(s * 1000), victim, victim, chain));
    model_.on_record(death(ms(s * 1000 + 50), victim));
  }

  const Nanos zero_ = std::chrono::system_clock::now().time_since_epoch() - kDay;
  MachineModel model_;
  Publisher publisher_;
  std::deque<std::uint64_t> live_;
  std::deque<std::pair<std::int64_t, wire::Task>> running_;
  std::uint64_t kills_ = 0;
  int steps_ = 0;
};

class Day : public StoreTest {
 protected:
  Bytes stored() const {
    Bytes out;
    for (const auto& file : std::filesystem::directory_iterator(dir_))
      out.count += static_cast<std::int64_t>(file.file_size());
    return out;
  }
};

TEST_F(Day, of_a_busy_service_leaves_no_more_behind_than_its_first_hours) {
  constexpr Bytes kMaxStore = MiB(8), kIndex = KiB(64);  // kIndex: of the log, in memory that is shared
  constexpr std::int64_t kHour = 3600, kFirst = 2;
  const char* tier = std::getenv("OOMCAST_TEST_TIER");
  const std::int64_t hours = kSanitized || !tier || tier != std::string_view("full") ? 3 : 24;
  std::size_t before = allocated(), first = 0, opened = 0;
  Service service(dir_, {.size = kMaxStore});
  for (std::int64_t s = 0; s <= hours * kHour; ++s) {
    service.second(s);
    // Just behind a kill, which waits for nothing, all else that was to be stored is.
    if (s == kFirst * kHour) {
      first = allocated() - before;
      opened = descriptors();
    }
    if (s % kHour == 0) {
      EXPECT_LE(stored(), kMaxStore + kIndex) << "after " << s / kHour << " hours";
    }
  }
  ASSERT_GT(first, 0u);
  EXPECT_LT(static_cast<double>(allocated() - before), 1.1 * static_cast<double>(first));
  EXPECT_LE(sqlite3_memory_highwater(0), MiB(4).count);
  EXPECT_LE(descriptors(), opened);
  service.end();
  EXPECT_EQ(in_sqlite(), 0u);
  EXPECT_EQ(service.not_stored(), 0u);
  EXPECT_GT(service.kills(), 10 * static_cast<std::uint64_t>(hours));
  EXPECT_EQ(static_cast<std::uint64_t>(ask("SELECT count(*) FROM episodes")), service.kills());
  EXPECT_LE(stored(), kMaxStore);
}

}  // namespace
}  // namespace oomcast
