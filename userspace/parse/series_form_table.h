// The tables that other tools write, known by the names of their columns.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parse/series_forms.h"
#include "parse/series_split.h"

namespace oomcast {

/// A row of the table of forms. `used` and `limit` are sums of columns; '|' separates names of which the
/// first that is there counts. Without `unit` names and figures decide.
struct SeriesForm {
  std::string_view name;
  std::array<std::string_view, 4> needs;
  std::string_view used;
  std::string_view limit = {}, keys = {}, unit = {}, memory = {};
  SeriesTotal total = SeriesTotal::none;
  bool blanks = false, labelled = false, skips_empty = false;
};

using Names = std::span<const std::string>;

/// The form that has columns of these names; nullptr: none has.
const SeriesForm* form_of(Names names, Split split);
std::optional<std::size_t> name_index(Names names, std::string_view name);
/// Of the first of `choices`, between '|', that is there.
std::optional<std::size_t> first_name_of(Names names, std::string_view choices);

}  // namespace oomcast
