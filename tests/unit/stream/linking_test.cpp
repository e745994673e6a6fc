#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace oomcast {
namespace {

// Servers and other readers of the stream link it without what reports, profiles and the screen need.
TEST(Stream, links_neither_sqlite_nor_libdw_nor_ncurses) {
  std::ifstream maps("/proc/self/maps");
  std::string all(std::istreambuf_iterator<char>(maps), {});
  ASSERT_NE(all.find("libfmt"), std::string::npos) << "the libraries of this program are not listed";
  for (const char* library : {"libsqlite3", "libdw", "libncurses"})
    EXPECT_EQ(all.find(library), std::string::npos) << library;
}

}  // namespace
}  // namespace oomcast
