#include "collect/gpu_driver.h"

#include <dirent.h>
#include <fcntl.h>

#include <memory>
#include <string>

#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxCards = 64;
constexpr std::size_t kLongestFile = 64 << 10;

std::vector<std::string> entries(const std::string& directory) {
  struct Close {
    void operator()(DIR* d) const { closedir(d); }
  };
  std::unique_ptr<DIR, Close> dir(opendir(directory.c_str()));
  std::vector<std::string> out;
  while (dirent* entry = dir && out.size() < kMaxCards ? readdir(dir.get()) : nullptr)
    if (entry->d_name[0] != '.') out.emplace_back(entry->d_name);
  return out;
}

}  // namespace

GpuDriver parse_devices(std::string_view text) {
  GpuDriver out;
  std::string_view line;
  bool character = false;
  while (next_line(text, line)) {
    if (line.starts_with("Character")) character = true;
    if (line.starts_with("Block")) character = false;
    auto major = parse_u32(next_field(line));
    auto name = trim(line);
    if (!character || !major) continue;
    if (*major == 195 && name.starts_with("nvidia")) out.control = true;
    if (name == "nvidia-uvm") out.uvm_major = *major;
  }
  return out;
}

GpuDriver find_gpu_driver(const Roots& roots) {
  auto read = [&](const char* path) { return read_file_at(AT_FDCWD, roots.at(path).c_str(), kLongestFile); };
  GpuDriver out;
  if (auto devices = read("/proc/devices")) out = parse_devices(*devices);
  if (!out.present()) return out;
  for (const char* path :
       {"/sys/module/nvidia_uvm/version", "/sys/module/nvidia/version", "/proc/driver/nvidia/version"})
    if (!out.version)
      if (auto text = read(path)) out.version = parse_gpu_driver_version(*text);
  return out;
}

std::optional<GpuCard> parse_gpu_card(std::string_view path, std::string_view text) {
  auto uuid = parse_gpu_uuid(path);
  if (!uuid) return std::nullopt;
  GpuCard out;
  out.uuid = *uuid;
  auto number = [&](std::string_view key) -> std::optional<std::uint64_t> {
    auto value = find_value(text, key);
    if (!value) return std::nullopt;
    std::string_view rest = *value;
    return parse_u64(next_field(rest));
  };
  if (auto bytes = number("vidmem_size"); bytes && *bytes < std::uint64_t{1} << 50)
    out.memory = Bytes{static_cast<std::int64_t>(*bytes)};
  out.faults = number("replayable_faults_num_faults");
  out.migrated_pages_in = number("migrated_pages_in");
  out.migrated_pages_out = number("migrated_pages_out");
  return out;
}

std::vector<GpuCard> read_gpu_cards(const std::string& top) {
  std::vector<GpuCard> out;
  for (const std::string& first : entries(top))
    for (const std::string& second : entries(top + "/" + first)) {
      std::string path = first + "/" + second;
      auto text = read_file_at(AT_FDCWD, (top + "/" + path + "/info").c_str(), kLongestFile);
      auto card = text ? parse_gpu_card(path, *text) : std::nullopt;
      if (card && out.size() < kMaxCards) out.push_back(*card);
    }
  return out;
}

}  // namespace oomcast
