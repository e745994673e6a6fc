#include "app/commands.h"
namespace oomcast {
Result<int> doctor(const Options&) { return Error::failed("x"); }
}
