// The live screen as lines of text, for ncurses, pipes and tests alike. Pure: what is shown follows from an
// Overview and a View.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "present/cells.h"
#include "present/facts.h"
#include "present/overview.h"
#include "present/rows.h"

namespace oomcast {

enum class Page : std::uint8_t { cgroups, processes, events, details };

/// What a person chose to see.
struct View {
  Page page = Page::cgroups;
  Order order = Order::deadline;
  bool reverse = false;
  std::string filter;           // a part of a name or path, whatever the case; the host's row always stays
  bool editing_filter = false;  // the last line asks for it
  bool help = false;            // in place of the page's body
  bool paused = false;
  bool utf8 = true;                  // false: ASCII only
  std::optional<CgroupId> selected;  // follows its cgroup when the order changes; inode 0: the host's row
  std::size_t first = 0;             // row or line at the top of the body; render() keeps it in range
  std::size_t visible = 0;           // rows or lines that the last render() had room for
};

struct Size {
  std::size_t width = 80, height = 24;
};

/// Rows in the order shown: the host's first, then those that pass the filter. What is unknown comes last.
std::vector<const OverviewRow*> arrange(const Overview& overview, const View& view);

/// Moves the selection among cgroups, the text on other pages; any distance, the ends hold.
void move(View& view, const Overview& overview, std::ptrdiff_t by);

/// Opens the details of the selected cgroup, or of the topmost.
void open_details(View& view, const Overview& overview);

/// At most `size.height` lines of at most `size.width` columns, the most urgent first. Changes only `first`
/// and `visible` of the view.
std::vector<Line> render(const Overview& overview, const ClockMap& clock, View& view, Size size);

}  // namespace oomcast
