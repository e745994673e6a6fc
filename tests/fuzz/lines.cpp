// Any bytes as a line of `--json`: what is read is a fact that is written as a line that reads as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "stream/json.h"
#include "stream/read_json.h"
#include "stream/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oomcast;
  auto fact = read_fact({reinterpret_cast<const char*>(data), size});
  if (!fact || !*fact) return 0;
  std::string line = to_json(**fact, clocks_of_read_facts());
  auto again = read_fact(line);
  if (!again || !*again || to_json(**again, clocks_of_read_facts()) != line) std::abort();
  (void)to_text(**fact, clocks_of_read_facts(), {});
  return 0;
}
