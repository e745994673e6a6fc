#include "blame/symbols.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "collect/process_memory.h"

namespace oomcast {

// Longer than one byte, at any level of optimization: what is looked up lies within it.
__attribute__((noinline, used)) void function_of_this_program() {
  asm volatile("nop\n\tnop");
}

namespace {

struct OwnSymbols {
  ProcessMemory memory{Roots{}, static_cast<std::uint32_t>(getpid())};
  std::vector<Mapping> maps = memory.maps().ok() ? *memory.maps() : std::vector<Mapping>{};
  MappedFiles files;
  Symbols symbols{memory, maps, files};

  const Mapping* of(const void* address) const {
    for (const Mapping& m : maps)
      if (auto at = reinterpret_cast<std::uint64_t>(address); m.begin <= at && at < m.end) return &m;
    return nullptr;
  }
};

TEST(Symbols, a_function_has_the_name_that_its_file_gives_it) {
  OwnSymbols self;
  auto* code = reinterpret_cast<const void*>(&function_of_this_program);
  const Mapping* mapping = self.of(code);
  ASSERT_TRUE(mapping);
  if (!self.memory.open_file(*mapping)) GTEST_SKIP() << "what is mapped may not be opened: needs root";
  const Frame& frame = self.symbols.resolve(reinterpret_cast<std::uint64_t>(code) + 1);
  EXPECT_EQ(frame.function, "oomcast::function_of_this_program()");
  EXPECT_EQ(frame.file, mapping->path);
}

TEST(Symbols, code_that_is_made_at_run_time_has_the_name_of_its_perf_map) {
  void* code = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  auto at = reinterpret_cast<std::uint64_t>(code);
  OwnSymbols self;
  std::string path = "/tmp/perf-" + std::to_string(self.memory.status()->ns_pid.back()) + ".map";
  std::ofstream(path) << std::hex << at << " 10 py::load:/srv/train.py\nnonsense\n"
                      << at + 0x10 << " 20 next\n";
  Frame named = self.symbols.resolve(at + 4), next = self.symbols.resolve(at + 0x2f),
        none = self.symbols.resolve(at + 0x30);
  unlink(path.c_str());
  munmap(code, 4096);
  EXPECT_EQ(named.function, "py::load:/srv/train.py");
  EXPECT_EQ(named.file, path);
  EXPECT_EQ(next.function, "next");
  EXPECT_EQ(none.function, "");
}

TEST(Symbols, a_perf_map_that_is_a_link_is_not_followed) {
  void* code = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  auto at = reinterpret_cast<std::uint64_t>(code);
  OwnSymbols self;
  std::string path = "/tmp/perf-" + std::to_string(self.memory.status()->ns_pid.back()) + ".map",
              other = path + ".other";
  std::ofstream(other) << std::hex << at << " 10 elsewhere\n";
  ASSERT_EQ(symlink(other.c_str(), path.c_str()), 0);
  Frame frame = self.symbols.resolve(at + 4);
  unlink(path.c_str());
  unlink(other.c_str());
  munmap(code, 4096);
  EXPECT_EQ(frame.function, "");
}

}  // namespace
}  // namespace oomcast
