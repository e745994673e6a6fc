#include "app/commands.h"
namespace oomcast {
Result<int> watch(const Options& options) {
  return trace(options);
}
}  // namespace oomcast
