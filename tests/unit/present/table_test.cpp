#include "present/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "present/change_log.h"
#include "present/overviews.h"

namespace oomcast {
namespace {

Names paths(const std::vector<const OverviewRow*>& rows) {
  Names out;
  for (const OverviewRow* r : rows) out.push_back(r->cgroup ? r->cgroup->path : "host");
  return out;
}

Names ordered(const Overview& o, Order order, bool reverse = false) {
  View view;
  view.order = order;
  view.reverse = reverse;
  return paths(arrange(o, view));
}

TEST(Table, a_cgroup_that_thrashes_comes_before_deadlines) {
  Overview o = busy();
  o.rows[0].forecast.alert = true;
  o.rows[0].forecast.evidence.thrashing = Thrashing{MonoTime{}, Seconds(72), 0.75, {415.0 * 1024 * 1024}};
  std::string all = shown(o, {}, {160, 30});
  EXPECT_NE(all.find("/idle has thrashed at its limit for 1 min 12 s and is not killed: a task waits for "
                     "memory 75 % of the time"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find(" thrashes"), std::string::npos) << all;
  EXPECT_EQ(ordered(o, Order::deadline)[1], "/idle") << "below the host";
}

TEST(Cells, a_width_counts_columns_not_bytes) {
  EXPECT_EQ(display_width("train"), 5u);
  EXPECT_EQ(display_width("名前"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("–"), 1u);
}

TEST(Cells, a_wide_character_that_fits_only_by_half_is_left_out) {
  EXPECT_EQ(cut_end("名前名前", 4), "名…");
  EXPECT_EQ(align_left("名前名前", 4), "名… ");
  EXPECT_EQ(display_width(cut_middle("/data/処理/学習/終わり", 11)), 11u);
}

TEST(Cells, a_long_text_keeps_its_beginning_and_more_of_its_end) {
  EXPECT_EQ(cut_middle("/system.slice/worker", 11), "/sys…worker");
  EXPECT_EQ(cut_middle("short", 5), "short");
  EXPECT_EQ(cut_middle("short", 0), "");
}

TEST(Cells, marks_that_pile_up_or_stand_on_nothing_are_escaped) {
  EXPECT_EQ(displayable("\u0301a"), "\\u{301}a");
  EXPECT_EQ(displayable("a\u0301\u0301\u0301"), "a\u0301\u0301\\u{301}");
}

TEST(Cells, wrapped_text_breaks_at_spaces_and_long_words_anywhere) {
  EXPECT_EQ(wrap("one two three", 8, 2), (Names{"one two", "  three"}));
  EXPECT_EQ(wrap("abcdefghij", 4, 0), (Names{"abcd", "efgh", "ij"}));
  EXPECT_EQ(wrap("名", 1, 0), (Names{"名"}));
  EXPECT_EQ(wrap("", 10, 0), (Names{""}));
}

TEST(Cells, ascii_has_the_same_width) {
  Line line = Line().add("13 s (11–15) █▒· 名前…");
  std::size_t before = display_width(line);
  to_ascii(line);
  EXPECT_EQ(line.cells[0].text, "13 s (11-15) #=. ????~");
  EXPECT_EQ(display_width(line), before);
}

TEST(Deadline, has_one_unit_for_the_median_and_its_interval) {
  auto f = dying(row(1, "/a", GiB(1)), 13).forecast;
  EXPECT_EQ(format_deadline(f, true), "13 s (11–15)");
  EXPECT_EQ(format_deadline(f, false), "13 s");
  EXPECT_EQ(format_deadline(dying(row(1, "/a", GiB(1)), 7560).forecast, true), "2.1 h (1.8–2.4)");
}

TEST(Deadline, says_never_where_growth_may_be_none) {
  auto f = dying(row(1, "/a", GiB(1)), 13).forecast;
  f.eta_high.reset();
  EXPECT_EQ(format_deadline(f, true), "13 s (11–never)");
  f.eta.reset();
  EXPECT_EQ(format_deadline(f, true), "> 11 s or never");
  EXPECT_EQ(format_deadline(f, false), ">11 s");
}

TEST(Deadline, is_a_dash_when_not_in_sight_and_now_at_the_limit) {
  EXPECT_EQ(format_deadline(Forecast{}, true), "–");
  EXPECT_EQ(format_deadline(dying(row(1, "/a", GiB(1)), 0).forecast, true), "now");
}

TEST(Deadline, fits_its_column_whatever_its_size) {
  for (double eta = 0.01; eta < 1e12; eta *= 1.7)
    for (double spread : {1.01, 3.0, 1e3, 1e7}) {
      auto f = dying(row(1, "/a", GiB(1)), eta).forecast;
      f.eta_high = Seconds(eta * spread);
      EXPECT_LE(display_width(format_deadline(f, true)), 19u) << format_deadline(f, true);
      EXPECT_LE(display_width(format_deadline(f, false)), 8u) << format_deadline(f, false);
      f.eta.reset();
      EXPECT_LE(display_width(format_deadline(f, true)), 19u) << format_deadline(f, true);
    }
}

TEST(Order, the_host_is_first_then_who_runs_out_soonest_then_who_grows_then_who_is_large) {
  Overview o = busy();
  o.rows.push_back(dying(row(5, "/later", GiB(1)), 5000));
  EXPECT_EQ(ordered(o, Order::deadline), (Names{"host", "/train", "/later", "/cache", "/idle", "/small"}));
}

TEST(Order, a_deadline_that_may_never_come_is_after_those_that_will) {
  OverviewRow perhaps = dying(row(5, "/perhaps", GiB(1)), 5);
  perhaps.forecast.eta.reset();
  perhaps.forecast.eta_high.reset();
  EXPECT_EQ(ordered(overview({perhaps, dying(row(6, "/sure", GiB(1)), 9000), row(7, "/calm", GiB(7))}),
                    Order::deadline),
            (Names{"/sure", "/perhaps", "/calm"}));
}

TEST(Order, noise_of_what_is_stable_moves_nothing) {
  OverviewRow noisy = growing(row(1, "/noisy", MiB(10)), {5e5});
  noisy.forecast.verdict = Verdict::stable;
  EXPECT_EQ(ordered(overview({noisy, row(2, "/large", GiB(1))}), Order::deadline),
            (Names{"/large", "/noisy"}));
}

TEST(Order, what_is_unknown_comes_last) {
  OverviewRow unknown = row(1, "/a", GiB(1));
  unknown.usage.reset();
  Overview o = overview({unknown, row(2, "/b", Bytes{0})});
  EXPECT_EQ(ordered(o, Order::usage), (Names{"/b", "/a"}));
  EXPECT_EQ(ordered(o, Order::name), (Names{"/a", "/b"}));
}

TEST(Order, reversed_keeps_the_host_on_top) {
  EXPECT_EQ(ordered(busy(), Order::usage, true), (Names{"host", "/small", "/cache", "/idle", "/train"}));
}

TEST(Order, two_cgroups_of_one_name_do_not_change_places) {
  Overview o = overview({row(2, "/a", GiB(1)), row(1, "/a", GiB(1))});
  View view;
  EXPECT_EQ(arrange(o, view)[0]->cgroup->id.inode, 1u);
  std::swap(o.rows[0], o.rows[1]);
  EXPECT_EQ(arrange(o, view)[0]->cgroup->id.inode, 1u);
}

TEST(Filter, keeps_parts_of_names_and_paths_whatever_the_case_and_the_host) {
  Overview o = busy();
  View view;
  view.filter = "TRAIN";
  EXPECT_EQ(paths(arrange(o, view)), (Names{"host", "/train"}));
  view.filter = "nothing like it";
  EXPECT_EQ(paths(arrange(o, view)), (Names{"host"}));
  EXPECT_TRUE(contains(shown(o, view), "no cgroup matches the filter"));
}

TEST(Screen, never_exceeds_its_size) {
  Overview o = busy();
  o.rows.push_back(dying(row(9, "/データ/" + std::string(300, 'x') + "/終わり", GiB(1)), 99));
  o.lost["ring buffer full"] = 7;
  for (Page page : {Page::cgroups, Page::processes, Page::events, Page::details})
    for (std::size_t width = 1; width <= 210; width += width < 50 ? 1 : 13)
      for (std::size_t height : {1u, 2u, 3u, 7u, 12u, 24u, 60u}) {
        View view;
        view.page = page;
        view.selected = CgroupId{Hierarchy::v2, 9};
        view.help = page == Page::details && width % 2;
        auto lines = render(o, {}, view, {width, height});
        ASSERT_LE(lines.size(), height);
        for (const Line& line : lines) ASSERT_LE(display_width(line), width) << to_text(line, TextStyle{});
      }
}

TEST(Screen, says_the_most_urgent_first_even_in_one_line) {
  EXPECT_EQ(shown(busy(), {}, {80, 1}), "/train: OOM in 13 s (11–15), growing 20.0 MiB/s\n");
}

TEST(Screen, shows_an_alert_among_the_events_and_what_it_ran_on_their_page) {
  Overview o = busy();
  AlertFact alert{{}, "level>40G", nullptr, "/ev\\x1bil holds 41 GiB", std::nullopt, {}};
  ActionRun exec{ActionRun::Kind::exec, "mail root", ActionRun::Result::failed};
  exec.exit_code = 3;
  exec.took = Seconds(0.5);
  ActionRun sent{ActionRun::Kind::signal, "SIGUSR1", ActionRun::Result::ok};
  sent.process = ProcessRef{};
  sent.process->id.tgid = 7;
  sent.process->comm = "python3";
  alert.actions = {sent, exec};
  o.events = {alert};
  std::string page = shown(o, {}, {120, 40});
  EXPECT_TRUE(contains(page, " alert level>40G: /ev\\x1bil holds 41 GiB\n")) << page;
  View events;
  events.page = Page::events;
  page = shown(o, events, {120, 40});
  EXPECT_TRUE(contains(page, "signal    SIGUSR1 to python3[7]: sent")) << page;
  EXPECT_TRUE(contains(page, "exec      mail root: exit code 3 after 500 ms")) << page;
}

TEST(Screen, says_so_when_nothing_is_urgent) {
  EXPECT_TRUE(contains(shown(overview({host(), row(1, "/a", GiB(1))}), {}), "No OOM in sight"));
  OverviewRow early = row(1, "/a", GiB(1));
  early.forecast.verdict = Verdict::unknown;
  EXPECT_TRUE(contains(shown(overview({early}), {}), "Too early for a forecast"));
  EXPECT_TRUE(contains(shown(overview({}), {}), "no cgroup is in scope"));
}

TEST(Screen, at_80_columns_has_usage_limit_growth_verdict_and_the_interval) {
  EXPECT_EQ(line_with(shown(busy(), {}), "/train  "),
            "/train            7.00 GiB 8.00 GiB  88% +20.0 MiB/s leak    13 s (11–15)");
}

TEST(Screen, at_40_columns_keeps_who_how_much_and_when) {
  EXPECT_EQ(line_with(shown(busy(), {}, {40, 24}), "/train   "), "/train            7.00 GiB  88% 13 s");
}

TEST(Screen, at_200_columns_tells_whose_limit_and_why) {
  std::string line = line_with(shown(busy(), {}, {200, 24}), "/train  ");
  EXPECT_TRUE(contains(line, " own ")) << line;
  EXPECT_TRUE(contains(line, "█████████·")) << line;
  EXPECT_TRUE(contains(line, "grew +20.0 MiB/s over 30 s")) << line;
}

TEST(Screen, what_is_unknown_is_a_dash_and_never_zero) {
  OverviewRow unknown;
  unknown.cgroup = shown_cgroup(1, "/a");
  std::string line = line_with(shown(overview({unknown}), {}, {120, 24}), "/a");
  EXPECT_FALSE(contains(line, "0")) << line;
  EXPECT_TRUE(contains(line, "–        –    –")) << line;
  EXPECT_TRUE(contains(line, "unknown")) << line;
  View details;
  details.page = Page::details;
  details.selected = unknown.cgroup->id;
  std::string page = shown(overview({unknown}), details);
  EXPECT_EQ(line_with(page, "Usage"), "Usage       unknown");
  EXPECT_EQ(line_with(page, "Growth"), "Growth      unknown");
}

TEST(Screen, a_share_below_one_percent_is_not_called_zero) {
  EXPECT_TRUE(contains(line_with(shown(overview({row(1, "/a", MiB(5))}), {}), "/a"), "<1%"));
  EXPECT_TRUE(contains(line_with(shown(overview({row(1, "/a", Bytes{0})}), {}), "/a"), " 0%"));
}

TEST(Screen, hostile_names_break_neither_the_line_nor_the_terminal) {
  Overview o = busy();
  o.rows.push_back(dying(row(9, "/ev\033[2Jil\n\xff\u202e", GiB(1)), 1));
  o.processes = {growing_process(7, "a\033]0;x\007\\", BytesPerSec{1e6})};
  o.scope = "--cgroup /x\ny";
  for (Page page : {Page::cgroups, Page::processes, Page::events, Page::details}) {
    View view;
    view.page = page;
    view.selected = CgroupId{Hierarchy::v2, 9};
    for (const Line& line : render(o, {}, view, {120, 30}))
      for (const Cell& cell : line.cells)
        for (char c : cell.text) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << cell.text;
  }
  View processes;
  processes.page = Page::processes;
  EXPECT_TRUE(contains(shown(o, processes), "a\\x1b]0;x\\x07\\\\[7]")) << shown(o, processes);
}

TEST(Screen, without_utf8_is_ascii) {
  Overview o = busy();
  o.rows.push_back(row(9, "/名前", GiB(1)));
  View view;
  view.utf8 = false;
  for (char c : shown(o, view, {200, 40})) ASSERT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Screen, losses_are_shown_only_if_there_are_any) {
  Overview o = busy();
  o.lost["kernel log overrun"] = 0;
  EXPECT_FALSE(contains(shown(o, {}), "LOST"));
  o.lost["ring buffer full"] = 7;
  EXPECT_TRUE(contains(shown(o, {}), "LOST 7 records (ring buffer full)"));
}

TEST(Screen, a_kill_has_room_beside_many_cgroups) {
  Overview o = busy();
  for (std::uint64_t i = 10; i < 300; ++i) o.rows.push_back(row(i, "/job-" + std::to_string(i), MiB(1)));
  std::string screen = shown(o, {});
  EXPECT_TRUE(contains(screen, "OOM killed python3[100]: /train hit its limit of 8.00 GiB")) << screen;
  EXPECT_TRUE(contains(screen, "GROWING PROCESSES")) << screen;
}

TEST(Screen, of_60_columns_says_how_many_were_killed_rather_than_what_the_host_has) {
  Overview o = busy();
  o.scope = "whole machine";
  std::string wide = shown(o, {}, {80, 24}), narrow = shown(o, {}, {50, 15});
  EXPECT_TRUE(contains(wide.substr(0, wide.find('\n')), "  host ")) << wide;
  std::string title = narrow.substr(0, narrow.find('\n'));
  EXPECT_TRUE(title.ends_with(" OOM kill")) << narrow;
  EXPECT_FALSE(contains(title, "host")) << narrow;
}

TEST(Screen, processes_that_do_not_grow_are_on_their_own_page_only) {
  Overview o = overview({row(1, "/a", GiB(1))});
  o.processes = {growing_process(7, "idle", std::nullopt), growing_process(8, "noisy", BytesPerSec{100})};
  EXPECT_FALSE(contains(shown(o, {}), "idle"));
  View view;
  view.page = Page::processes;
  EXPECT_TRUE(contains(shown(o, view), "idle[7]"));
}

TEST(Selection, follows_its_cgroup_when_the_order_changes) {
  Overview o = busy();
  View view;
  move(view, o, 1);  // the first row
  move(view, o, 1);
  EXPECT_EQ(view.selected->inode, 2u);
  o.rows[0] = dying(o.rows[0], 1);  // overtakes
  auto lines = render(o, {}, view, {80, 24});
  auto selected = std::find_if(lines.begin(), lines.end(), [](const Line& line) { return line.selected; });
  ASSERT_NE(selected, lines.end());
  EXPECT_TRUE(contains(to_text(*selected, TextStyle{}), "/train"));
}

TEST(Selection, stays_in_view_at_either_end_of_a_long_list) {
  Overview o = busy();
  for (std::uint64_t i = 10; i < 300; ++i) o.rows.push_back(row(i, "/job-" + std::to_string(i), MiB(1)));
  View view;
  constexpr std::ptrdiff_t far = 1'000'000'000;
  for (std::ptrdiff_t by : {far, -far, far, std::ptrdiff_t{-20}}) {
    move(view, o, by);
    auto lines = render(o, {}, view, {80, 24});
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const Line& line) { return line.selected; }), 1);
  }
}

TEST(Details, of_nothing_selected_are_the_most_urgent_cgroups) {
  Overview o = busy();
  View view;
  open_details(view, o);
  std::string page = shown(o, view);
  EXPECT_EQ(line_with(page, "Cgroup  "), "Cgroup      /train");
  EXPECT_TRUE(contains(page, "OOM in 13 s (11–15)"));
  EXPECT_TRUE(contains(page, "the host  45.0 GiB of 61.0 GiB (74%)")) << page;
}

TEST(Details, show_only_processes_within_the_cgroup) {
  Overview o = overview({row(1, "/a", GiB(1))});
  o.processes = {growing_process(7, "child", std::nullopt), growing_process(8, "other", std::nullopt)};
  o.processes[0].process.cgroup = shown_cgroup(2, "/a/b");
  o.processes[1].process.cgroup = shown_cgroup(3, "/ab");
  View view;
  open_details(view, o);
  EXPECT_TRUE(contains(shown(o, view), "child[7]"));
  EXPECT_FALSE(contains(shown(o, view), "other[8]"));
}

TEST(Details, tell_from_which_lines_its_processes_grew) {
  Overview o = overview({row(1, "/a", GiB(1))});
  o.time = mono_from_ns(60'000'000'000);
  View view;
  open_details(view, o);
  EXPECT_FALSE(contains(shown(o, view), "GREW FROM")) << "nobody could look";
  o.can_look = true;
  EXPECT_TRUE(contains(shown(o, view), "not profiled yet: b does it, for 5 s"));
  o.looking_at = "/a";
  EXPECT_TRUE(contains(shown(o, view), "profiling for 5 s"));
  GrewFrom from;
  from.process = growing_process(7, "python3", std::nullopt).process;
  from.process.cgroup = shown_cgroup(2, "/a/b");
  from.code = {{"keep\033[2J", "/job/train.py", 41}, {"step", "/job/train.py", 50}};
  from.grown = MiB(30);
  from.of = MiB(40);
  from.watched = Seconds(4);
  from.to = mono_from_ns(50'000'000'000);
  o.grew_from.sites = {from, from};
  o.grew_from.sites[1].process.cgroup = shown_cgroup(3, "/ab");
  o.grew_from.sites[1].code[0].function = "another";
  std::string page = shown(o, view);
  EXPECT_TRUE(contains(page, "first touched by keep\\x1b[2J (train.py:41): 30.0 MiB of the 40.0 MiB"))
      << page;
  EXPECT_FALSE(contains(page, "75 %")) << "of what was only touched";
  o.grew_from.sites[0].evidence.sure = MiB(30);
  o.grew_from.sites[0].evidence.kept = MiB(30);
  page = shown(o, view);
  EXPECT_TRUE(contains(page, "kept by keep\\x1b[2J (train.py:41): 30.0 MiB, 75 % of the 40.0 MiB")) << page;
  EXPECT_TRUE(contains(page, "called by step (train.py:50)")) << page;
  EXPECT_FALSE(contains(page, "another"));
}

TEST(Details, of_a_cgroup_that_is_gone_say_so) {
  View view;
  view.page = Page::details;
  view.selected = CgroupId{Hierarchy::v2, 77};
  EXPECT_TRUE(contains(shown(busy(), view), "no longer exists"));
}

TEST(Changes, tell_of_all_first_and_then_of_what_grows_or_changed) {
  ChangeLog log;
  Overview o = busy();
  EXPECT_EQ(log.changes(o, {}).size(), 5u);
  auto again = text(log.changes(o, {}));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(contains(again[0], "cgroup    /train  7.00 GiB of 8.00 GiB (88%), not reclaimable 7.00 GiB"));
  EXPECT_TRUE(contains(again[0], "+20.0 MiB/s, leak, OOM in 13 s (11–15)"));
  o.rows[0].usage = GiB(3) + MiB(20);  // less than 1 %
  o.rows[4].forecast.verdict = Verdict::spikes;
  auto third = text(log.changes(o, {}));
  ASSERT_EQ(third.size(), 3u);
  EXPECT_TRUE(contains(third[2], "/small"));
}

TEST(Changes, that_creep_are_told_once_they_add_up) {
  ChangeLog log;
  Overview o = overview({row(1, "/a", GiB(1))});
  log.changes(o, {});
  int told = 0;
  for (int i = 1; i <= 10; ++i) {
    o.rows[0].usage = GiB(1) + MiB(4 * i);
    told += static_cast<int>(log.changes(o, {}).size());
  }
  EXPECT_EQ(told, 3);
}

TEST(Changes, unknown_values_are_named) {
  ChangeLog log;
  OverviewRow unknown;
  unknown.cgroup = shown_cgroup(1, "/a");
  EXPECT_TRUE(contains(text(log.changes(overview({unknown}), {}))[0],
                       "/a  unknown, not reclaimable unknown, growth unknown, unknown, too early to say"));
}

TEST(Screen, has_a_line_for_each_card_with_who_holds_most_and_says_how_they_are_followed) {
  Overview o = overview({host(), row(1, "/job", GiB(1))});
  o.gpu = "driver calls by sys_exit, faults and evictions not followed";
  OverviewCard card;
  card.now.device.emplace().bytes.fill(0x1a);
  card.now.held = GiB(23);
  card.now.limit = GiB(32);
  GpuSample holder = card.now;
  holder.process.emplace();
  holder.process->id = {7, 1};
  holder.process->comm = "python3";
  holder.pinned = GiB(4);
  holder.evicted = MiB(6);
  card.holders = {holder};
  o.cards = {card};
  View view;
  std::string all;
  for (const Line& line : render(o, ClockMap{}, view, {160, 24}))
    all += to_text(line, TextStyle{false}) + "\n";
  EXPECT_NE(all.find("GPU-1a1a1a1a"), std::string::npos) << all;
  EXPECT_NE(all.find("23.0 GiB of 32.0 GiB"), std::string::npos) << all;
  EXPECT_NE(all.find("python3[7] 23.0 GiB + pinned host memory 4.00 GiB evicted 6.00 MiB"), std::string::npos)
      << all;
  EXPECT_NE(all.find("GPU: driver calls by sys_exit"), std::string::npos) << all;
  o.cards.clear();
  o.gpu.clear();
  all.clear();
  for (const Line& line : render(o, ClockMap{}, view, {160, 24}))
    all += to_text(line, TextStyle{false}) + "\n";
  EXPECT_EQ(all.find("GPU"), std::string::npos) << "nothing of a GPU where there is none";
}

}  // namespace
}  // namespace oomcast
