// Databases of oomcast's own, spoiled as the fuzzer's bytes say: what a stranger can write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace oomcast::fuzz {

/// A database as it is meant to be, in memory.
struct Seed {
  struct Table {
    std::string name;
    std::vector<std::string> columns;
    std::int64_t rows = 0;
  };
  std::string bytes;
  std::vector<Table> tables;
};
/// One run, its rows in order.
Seed recording();
/// Two runs with two kills.
Seed store();
/// What oomcast of November 2026 wrote.
Seed recording_of_schema_1();

/// Cells of the seed with other values, rows less and twice, and then bytes of the file, as `data` says.
std::string spoiled(const Seed& seed, const std::uint8_t* data, std::size_t size);

/// A file of this process's own for what was spoiled. Aborts: it cannot be written.
class File {
 public:
  File();
  ~File();
  const std::string& path() const { return path_; }
  void hold(const std::string& bytes);

 private:
  std::string path_;
};

}  // namespace oomcast::fuzz
