// A post-mortem as one HTML file that opens offline: curves, events and forecasts on one time axis, tables,
// sentences.
#pragma once

#include <string>

#include "base/result.h"
#include "present/post_mortem.h"

namespace oomcast {

/// Under 3 MiB for any input: excess data is thinned out or dropped, and the page says so. Local time is this
/// machine's. Fails only in a build without HTML.
Result<std::string> to_html(const PostMortem& report);

}  // namespace oomcast
