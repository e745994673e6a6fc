// Any bytes as a series of another tool, from its first lines to the points, as a file and with what a person
// says of it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "app/series_input.h"
#include "spoil.h"

namespace {

using namespace oomcast;

void must(bool holds) {
  if (!holds) std::abort();
}

SeriesChoices choices_of(std::uint8_t bits) {
  SeriesChoices out;
  if (bits & 1) out.unit = memory_unit("KiB");
  if (bits & 2) out.interval = 0.5;
  if (bits & 4) out.column = "2";
  if (bits & 8) out.time = "1";
  if (bits & 16) out.limit = GiB(8);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::File file;
  if (size == 0) return 0;
  file.hold(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  // Most are read without a word about them.
  auto input = SeriesInput::open(file.path(), data[0] < 128 ? SeriesChoices() : choices_of(data[0]));
  if (!input) {
    must(input.error().exit_code == 2 && !input.error().message.empty());
    return 0;
  }
  for (;;) {
    auto point = input->next();
    if (!point) {
      must(point.error().exit_code == 2);
      break;
    }
    if (!*point) break;
    must(std::isfinite((*point)->time_s));
    must(!(*point)->reading.limit || (*point)->reading.limit->count > 0);
    (void)input->name((*point)->series);
  }
  (void)input->read_as();
  return 0;
}
