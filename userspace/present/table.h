// The live screen as lines of text, for ncurses, pipes and tests. A pure function of an Overview and a View.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "present/overview.h"
#include "present/rows.h"
#include "stream/cells.h"
#include "stream/facts.h"

namespace oomcast {

enum class Page : std::uint8_t { cgroups, processes, events, details, report };

/// What the user chose to see.
struct View {
  Page page = Page::cgroups;
  Order order = Order::deadline;
  bool reverse = false;
  std::string filter;           // part of a name or path, case-insensitive; always keeps the host's row
  bool editing_filter = false;  // in the last line
  bool help = false;            // replaces the page's body
  bool show_idle = false;       // otherwise idle cgroups share one row, unless they are few
  bool paused = false;
  bool utf8 = true;                  // false: ASCII only
  std::optional<CgroupId> selected;  // follows its cgroup when the order changes; inode 0: the host
  std::optional<std::string> selected_event = {};  // its key_of(); see chosen_event()
  std::vector<std::string> report = {};            // lines of the open post-mortem, safe to show
  Page report_from = Page::cgroups;                // the page to return to
  std::size_t first = 0;                           // row or line at the top of the body; render() clamps it
  std::size_t visible = 0;                         // rows or lines that fit in the last render()
};

struct Size {
  std::size_t width = 80, height = 24;
};

/// Rows in display order: the host first, then those that pass the filter and are not folded. Unknown values
/// come last.
std::vector<const OverviewRow*> arrange(const Overview& overview, const View& view);
/// The idle cgroups folded into one row: if there are at least kFoldFrom, and no filter. The selected one
/// keeps its own row.
inline constexpr std::size_t kFoldFrom = 4;
std::size_t folded(const Overview& overview, const View& view);

/// Moves the selection among cgroups or events, or scrolls the text on other pages; clamped to the ends.
void move(View& view, const Overview& overview, std::ptrdiff_t by);

/// Opens the details of the selected cgroup, or of the first one.
void open_details(View& view, const Overview& overview);
/// Shows the text of a post-mortem, any bytes; close_report() returns to the previous page.
void open_report(View& view, std::string_view text);
void close_report(View& view);

/// At most `size.height` lines of at most `size.width` columns, most urgent first. Changes only `first` and
/// `visible` of the view.
std::vector<Line> render(const Overview& overview, const ClockMap& clock, View& view, Size size);

}  // namespace oomcast
