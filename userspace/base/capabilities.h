// A set of capabilities that frees itself.
#pragma once

#include <sys/capability.h>

#include <memory>

namespace oomcast {

struct CapFree {
  void operator()(_cap_struct* c) const { cap_free(c); }
};
using Capabilities = std::unique_ptr<_cap_struct, CapFree>;

}  // namespace oomcast
