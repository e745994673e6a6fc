// The live screen as lines of text, for ncurses, pipes and tests alike. Pure: what is shown follows from an
// Overview and a View.
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

/// What a person chose to see.
struct View {
  Page page = Page::cgroups;
  Order order = Order::deadline;
  bool reverse = false;
  std::string filter;           // a part of a name or path, whatever the case; the host's row always stays
  bool editing_filter = false;  // the last line asks for it
  bool help = false;            // in place of the page's body
  bool show_idle = false;       // otherwise idle cgroups are one row, unless there are few
  bool paused = false;
  bool utf8 = true;                  // false: ASCII only
  std::optional<CgroupId> selected;  // follows its cgroup when the order changes; inode 0: the host's row
  std::optional<std::string> selected_event = {};  // key_of() it; see chosen_event()
  std::vector<std::string> report = {};            // lines of the post-mortem that is open, safe to show
  Page report_from = Page::cgroups;                // where it was opened
  std::size_t first = 0;    // row or line at the top of the body; render() keeps it in range
  std::size_t visible = 0;  // rows or lines that the last render() had room for
};

struct Size {
  std::size_t width = 80, height = 24;
};

/// Rows in the order shown: the host's first, then those that pass the filter and are not folded. What is
/// unknown comes last.
std::vector<const OverviewRow*> arrange(const Overview& overview, const View& view);
/// Idle cgroups that have one row together: kFoldFrom of them or more, while there is no filter. The selected
/// one keeps its own.
inline constexpr std::size_t kFoldFrom = 4;
std::size_t folded(const Overview& overview, const View& view);

/// Moves the selection among cgroups and among events, the text on other pages; any distance, the ends hold.
void move(View& view, const Overview& overview, std::ptrdiff_t by);

/// Opens the details of the selected cgroup, or of the topmost.
void open_details(View& view, const Overview& overview);
/// Shows the text of a post-mortem, any bytes; close_report() goes back to where one was.
void open_report(View& view, std::string_view text);
void close_report(View& view);

/// At most `size.height` lines of at most `size.width` columns, the most urgent first. Changes only `first`
/// and `visible` of the view.
std::vector<Line> render(const Overview& overview, const ClockMap& clock, View& view, Size size);

}  // namespace oomcast
