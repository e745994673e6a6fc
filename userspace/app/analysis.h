// The one order in which facts meet the forecasts, live and replayed.
#pragma once

#include <functional>

#include "forecast/book.h"
#include "present/facts.h"

namespace oomcast {

using Sink = std::function<void(const Fact&)>;

/// Tells `fact`, completed with what the book knows, and then what the book makes of it.
void analyse(Book& book, Fact& fact, const Sink& sink);

}  // namespace oomcast
