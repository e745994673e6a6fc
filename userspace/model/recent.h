// The newest of something, in bounded memory.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace oomcast {

/// Adds `item`; beyond `max` the oldest goes.
template <typename T>
void remember(std::deque<T>& recent, T item, std::size_t max) {
  recent.push_back(std::move(item));
  if (recent.size() > max) recent.pop_front();
}

}  // namespace oomcast
