// Any store, in every form of a report and as the history.
#include <cstddef>
#include <cstdint>

#include "app/commands.h"
#include "spoil.h"

namespace {

using namespace oomcast;

const fuzz::Seed& seed(unsigned which) {
  static const fuzz::Seed seeds[] = {fuzz::store(), fuzz::recording(), fuzz::recording_of_schema_1()};
  return seeds[which % 8 < 6 ? 0 : which % 8 - 5];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::File file;
  if (size == 0) return 0;
  file.hold(fuzz::spoiled(seed(data[0]), data + 1, size - 1));
  Options options;
  options.output.quiet = true;
  options.sources.use_kmsg = options.history.import = false;
  options.store.path = file.path();
  options.store.named = true;
  options.output.color = data[0] & 8 ? ColorChoice::always : ColorChoice::never;
  constexpr Format formats[] = {Format::text, Format::json, Format::markdown, Format::html};
  options.report.format = formats[data[0] >> 4 & 3];
  (void)report(options);
  options.output.json = data[0] & 64;
  (void)history(options);
  return 0;
}
