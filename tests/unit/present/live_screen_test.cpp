// What the live screen says first, at 80×24 and on other terminals: what runs out, what to do, what grows,
// what was killed.
#include <gtest/gtest.h>

#include <algorithm>

#include "present/idle_rows.h"
#include "present/overviews.h"
#include "present/recent_kills.h"

namespace oomcast {
namespace {

OomEvent kill_of(std::uint32_t pid, const std::string& comm, double at_s) {
  OomEvent out;
  out.episode.serial = pid;
  out.episode.time = mono_from_ns(static_cast<std::int64_t>(at_s * 1e9));
  out.episode.limit_cgroup = shown_cgroup(2, "/train");
  out.episode.limit = MiB(200);
  out.episode.victims.emplace_back();
  out.episode.victims[0].process.id = {pid, 1};
  out.episode.victims[0].process.comm = comm;
  return out;
}

Overview quiet_at(double seconds) {
  Overview out = overview({host(), row(2, "/train", MiB(5))});
  out.time = mono_from_ns(static_cast<std::int64_t>(seconds * 1e9));
  return out;
}

Overview with_idle(std::size_t idle) {
  Overview out = overview({host(), dying(row(1, "/train", GiB(7)), 13)});
  for (std::uint64_t i = 0; i < idle; ++i)
    out.rows.push_back(row(10 + i, "/idle-" + std::to_string(i), MiB(1)));
  return out;
}

TEST(KillLine, says_for_a_minute_what_was_killed_and_which_key_opens_its_post_mortem) {
  Overview o = quiet_at(103);
  o.events.push_back(kill_of(9054, "python3", 100));
  std::string all = shown(o, {});
  EXPECT_TRUE(contains(all, "!! python3[9054] was OOM-killed 3 s ago: Enter\n")) << all;
  EXPECT_TRUE(contains(all, "No other OOM in sight.")) << all;
  View view;
  auto lines = render(o, {}, view, {80, 24});
  EXPECT_TRUE(std::ranges::any_of(lines, [](const Line& line) {
    return !line.cells.empty() && line.cells[0].style == Style::alert && contains(line.cells[0].text, "9054");
  }));
  o.time = mono_from_ns(161'000'000'000);
  all = shown(o, {});
  EXPECT_FALSE(contains(all, "!! ")) << all;
  EXPECT_TRUE(contains(all, "No OOM in sight.")) << all;
}

TEST(KillLine, names_the_newest_of_several_and_counts_the_others_of_the_minute) {
  Overview o = quiet_at(200);
  for (std::uint32_t i = 0; i < 4; ++i) o.events.push_back(kill_of(100 + i, "worker", 130 + 20.0 * i));
  EXPECT_TRUE(
      contains(shown(o, {}), "!! worker[103] was OOM-killed 10 s ago, 2 others within a minute: Enter"))
      << shown(o, {});
}

TEST(KillLine, keeps_what_happened_and_its_key_on_a_narrow_screen_however_long_the_name) {
  Overview o = quiet_at(200);
  o.events.push_back(kill_of(7, std::string(15, 'x'), 150));
  o.events.push_back(kill_of(8, std::string(15, 'x'), 190));
  for (std::size_t width : {50u, 60u, 80u, 200u}) {
    View view;
    std::string line = to_text(kill_line(o, view, width), TextStyle{});
    EXPECT_TRUE(contains(line, "OOM-killed")) << line;
    EXPECT_TRUE(line.ends_with(": Enter")) << line;
    EXPECT_LE(display_width(line), width);
  }
}

TEST(KillLine, is_opened_by_enter_unless_a_cgroup_is_chosen_and_then_by_o) {
  Overview o = quiet_at(103);
  o.events.push_back(kill_of(9054, "python3", 100));
  View view;
  ASSERT_NE(kill_to_open(o, view), nullptr);
  EXPECT_TRUE(contains(shown(o, view), "Enter post-mortem"));
  view.selected = o.rows[1].cgroup->id;
  EXPECT_EQ(kill_to_open(o, view), nullptr);
  EXPECT_TRUE(contains(shown(o, view), "was OOM-killed 3 s ago: o\n")) << shown(o, view);
  EXPECT_TRUE(contains(shown(o, view), "Enter details"));
}

TEST(Events, are_chosen_by_arrows_and_enter_is_for_the_one_that_is_chosen) {
  Overview o = quiet_at(500);
  o.events.push_back(kill_of(1, "old", 100));
  o.events.push_back(AlertFact{mono_from_ns(1), "level>40G", nullptr, "host holds 41 GiB", std::nullopt, {}});
  o.events.push_back(kill_of(2, "new", 300));
  View view;
  view.page = Page::events;
  EXPECT_EQ(kill_to_open(o, view)->episode.serial, 2u) << "the newest";
  EXPECT_TRUE(contains(shown(o, view, {60, 15}), "e or Esc: back  Enter post-mortem"))
      << shown(o, view, {60, 15});
  move(view, o, 1);
  EXPECT_EQ(kill_to_open(o, view), nullptr) << "an alert has no post-mortem";
  move(view, o, 5);
  EXPECT_EQ(kill_to_open(o, view)->episode.serial, 1u);
  o.events.push_back(kill_of(3, "newest", 400));
  EXPECT_EQ(kill_to_open(o, view)->episode.serial, 1u) << "a choice stays";
  std::string page = shown(o, view, {120, 40});
  EXPECT_TRUE(contains(page, "killed    old[1]")) << "what is known of it: " << page;
  EXPECT_FALSE(contains(page, "killed    new[2]")) << page;
}

TEST(PostMortemPage, scrolls_says_which_keys_go_back_and_goes_back_to_where_it_was_opened) {
  Overview o = quiet_at(500);
  View view;
  view.page = Page::events;
  std::string text = "python3[9054] was OOM-killed\n";
  for (int i = 0; i < 60; ++i) text += "  line " + std::to_string(i) + " \x1b[2J\n";
  open_report(view, text);
  std::string first = shown(o, view);
  EXPECT_TRUE(contains(first, "python3[9054] was OOM-killed\n  line 0 ")) << first;
  EXPECT_TRUE(contains(first, "Enter or Esc: back")) << first;
  EXPECT_FALSE(contains(first, "\x1b"));
  move(view, o, 1'000'000);
  EXPECT_TRUE(contains(shown(o, view), "  line 59 ")) << shown(o, view);
  close_report(view);
  EXPECT_EQ(view.page, Page::events);
}

TEST(Screen80x24, begins_with_what_runs_out_when_what_grows_what_to_do_and_what_was_killed) {
  Overview o = busy();
  o.processes[3].process.cgroup = o.rows[1].cgroup;
  o.processes[3].rss = MiB(12);
  o.can_look = true;
  std::string all = shown(o, {});
  std::size_t begin = all.find('\n') + 1;
  std::string first = all.substr(begin, 400);
  EXPECT_TRUE(
      first.starts_with("/train: OOM in 13 s (11–15), growing 20.0 MiB/s\n"
                        "python3[103] grows 977 KiB/s: save its work, raise its limit; b: its line\n"))
      << first;
  EXPECT_TRUE(contains(first, "!! python3[100] was OOM-killed just now: Enter\n")) << first;
  EXPECT_TRUE(
      contains(shown(o, {}, {60, 15}), "python3[103] grows 977 KiB/s: save its work, raise its limit\n"))
      << shown(o, {}, {60, 15});
}

TEST(Screen80x24, names_the_line_that_grows_once_it_was_found) {
  Overview o = busy();
  o.processes[3].process.cgroup = o.rows[1].cgroup;
  GrewFrom from;
  from.process = o.processes[3].process;
  from.code = {{"append_output", "/job/train.py", 4}};
  from.grown = from.of = MiB(40);
  o.grew_from.sites = {from};
  EXPECT_TRUE(
      contains(shown(o, {}), "python3[103] grows 977 KiB/s from append_output (train.py:4): raise its limit"))
      << shown(o, {});
}

TEST(Deadline, without_an_alert_is_of_low_confidence_wherever_it_stands) {
  Overview o = overview({host(), dying(row(1, "/spiky", MiB(118)), 4.1)});
  o.rows[1].forecast.alert = false;
  std::string all = shown(o, {});
  EXPECT_TRUE(contains(all, "/spiky: OOM in 4.1 s (3.5–4.7), low confidence, growing 20.0 MiB/s\n")) << all;
  o.rows[1].cgroup = shown_cgroup(1, "/" + std::string(90, 'x'));
  for (std::size_t width : {60u, 80u, 120u})
    EXPECT_TRUE(contains(shown(o, {}, {width, 24}), "OOM in 4.1 s (3.5–4.7), low confidence")) << width;
  o.rows[1].cgroup = shown_cgroup(1, "/spiky");
  EXPECT_TRUE(contains(line_with(all, "/spiky  "), "~4.1 s (3.5–4.7)")) << all;
  View details;
  open_details(details, o);
  EXPECT_TRUE(contains(line_with(shown(o, details), "Forecast"), ", low confidence")) << shown(o, details);
}

TEST(Growing, has_first_the_grower_of_each_cgroup_that_runs_out_and_then_others) {
  Overview o = overview({host(), row(1, "/calm", GiB(1)), dying(row(2, "/later", MiB(90)), 500),
                         dying(row(3, "/soon", MiB(50)), 10)});
  auto in = [&](std::uint32_t pid, std::size_t at, double rate) {
    o.processes.push_back(growing_process(pid, "p", BytesPerSec{rate}));
    o.processes.back().process.cgroup = o.rows[at].cgroup;
    o.processes.back().rss = MiB(30);
  };
  in(10, 1, 9e6);  // a bystander
  in(11, 2, 1e6);
  in(12, 3, 2e6);
  in(13, 3, 1e6);
  EXPECT_EQ(growers(o, 5).size(), 3u) << "not the bystander, whose cgroup does not grow";
  o.rows[1].forecast.verdict = Verdict::unknown;
  std::vector<std::uint32_t> pids;
  for (const ProcessSampleFact* p : growers(o, 5)) pids.push_back(p->process.id.tgid);
  EXPECT_EQ(pids, (std::vector<std::uint32_t>{12, 11, 10, 13}));
}

TEST(Growing, ends_when_no_sample_follows_that_growth_would_have_brought) {
  ProcessSampleFact p = growing_process(7, "p", BytesPerSec{1e6});
  EXPECT_TRUE(growth_at(p, mono_from_ns(9'000'000'000)));
  EXPECT_FALSE(growth_at(p, mono_from_ns(11'000'000'000)));
  p.growth = BytesPerSec{100e3};  // a MiB takes it ten seconds
  EXPECT_TRUE(growth_at(p, mono_from_ns(25'000'000'000)));
}

TEST(Idle, cgroups_are_one_row_until_a_key_unfolds_them) {
  Overview o = with_idle(300);
  IdleRows().mark(o);
  View view;
  std::string all = shown(o, view);
  EXPECT_TRUE(contains(all, "300 idle cgroups: i shows them\n")) << all;
  EXPECT_FALSE(contains(all, "/idle-7"));
  EXPECT_TRUE(contains(line_with(all, "/train  "), "leak")) << all;
  view.show_idle = true;
  all = shown(o, view, {120, 24});
  EXPECT_TRUE(contains(all, "/idle-")) << all;
  EXPECT_TRUE(contains(all, "i fold idle")) << all;
}

TEST(Idle, cgroups_are_found_by_a_filter_and_a_chosen_one_keeps_its_row) {
  Overview o = with_idle(10);
  IdleRows().mark(o);
  View view;
  view.filter = "idle-7";
  EXPECT_TRUE(contains(shown(o, view), "/idle-7"));
  view.filter.clear();
  view.selected = o.rows[5].cgroup->id;
  EXPECT_TRUE(contains(shown(o, view), "/idle-3"));
  EXPECT_TRUE(contains(shown(o, view), "9 idle cgroups"));
}

TEST(Idle, cgroups_that_are_few_keep_their_rows) {
  Overview o = with_idle(3);
  IdleRows().mark(o);
  EXPECT_TRUE(contains(shown(o, {}), "/idle-2"));
}

TEST(Idle, is_what_neither_moves_nor_grows_nor_is_new) {
  IdleRows rows;
  auto at = [&](double seconds, Bytes moving) {
    Overview o = with_idle(2);
    o.time = mono_from_ns(static_cast<std::int64_t>(seconds * 1e9));
    o.rows[2].usage = moving;
    if (seconds > 0) o.rows.push_back(row(99, "/new", MiB(20)));
    if (seconds > 0) o.rows.push_back(row(100, "/new-and-empty", Bytes{}));
    rows.mark(o);
    return o;
  };
  Overview first = at(0, MiB(1));
  EXPECT_TRUE(first.rows[2].idle);
  EXPECT_FALSE(first.rows[0].idle) << "the host";
  EXPECT_FALSE(first.rows[1].idle) << "has a deadline";
  Overview then = at(1, MiB(9));
  EXPECT_FALSE(then.rows[2].idle) << "moved";
  EXPECT_TRUE(then.rows[3].idle);
  EXPECT_FALSE(then.rows[4].idle) << "new";
  EXPECT_TRUE(then.rows[5].idle) << "there is nothing in it";
  Overview later = at(40, MiB(9));
  EXPECT_TRUE(later.rows[2].idle) << "still since half a minute";
  EXPECT_TRUE(later.rows[4].idle);
}

TEST(Help, at_80_by_24_says_that_arrows_scroll_and_other_keys_go_back) {
  View view;
  view.help = true;
  std::string all = shown(busy(), view);
  EXPECT_TRUE(contains(all, "arrows, PgUp, PgDn scroll  any other key goes back\n")) << all;
}

TEST(Footer, at_80_columns_has_the_order_whole_and_no_key_by_half) {
  Overview o = with_idle(50);
  View view;
  view.show_idle = true;
  for (std::size_t width : {40u, 60u, 80u, 120u, 200u}) {
    std::string all = shown(o, view, {width, 24});
    std::string last = all.substr(all.rfind('\n', all.size() - 2) + 1);
    EXPECT_FALSE(contains(last, "…")) << last;
    EXPECT_TRUE(contains(last, "? help")) << last;
    EXPECT_TRUE(width < 60 || contains(last, "s order: time to OOM")) << last;
  }
}

}  // namespace
}  // namespace oomcast
