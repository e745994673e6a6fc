// Any recording, replayed and compared: as text and as JSON.
#include <cstddef>
#include <cstdint>

#include "app/commands.h"
#include "spoil.h"

namespace {

using namespace oomcast;

const fuzz::Seed& seed(bool old) {
  static const fuzz::Seed now = fuzz::recording(), before = fuzz::recording_of_schema_1();
  return old ? before : now;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::File file;
  if (size == 0) return 0;
  file.hold(fuzz::spoiled(seed(data[0] % 8 == 0), data + 1, size - 1));
  Options options;
  options.output.quiet = true;
  options.series.file = options.series.other = file.path();
  options.output.json = data[0] & 16;
  options.output.color = data[0] & 32 ? ColorChoice::always : ColorChoice::never;
  (void)replay(options);
  if (data[0] & 64) (void)compare(options);
  return 0;
}
