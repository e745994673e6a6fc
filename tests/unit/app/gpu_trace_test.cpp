// A trace of the driver's calls, as scripts/gpu-check --save keeps it of real hardware: decoded and followed
// again, it gives what the program held. This one is of the stand-in for the driver (sequence "kinds" of
// gpu_program.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/gpu_memory.h"
#include "parse/gpu_calls.h"

namespace oomcast {
namespace {

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

wire::GpuCall call_of(const nlohmann::json& line) {
  wire::GpuCall out;
  out.time = mono_from_ns(line.at("time_ns").get<std::uint64_t>());
  out.task.id = {line.at("pid").get<std::uint32_t>(), 1};
  out.call = static_cast<wire::GpuCall::Call>(line.at("call").get<int>());
  out.device = static_cast<wire::GpuCall::Device>(line.at("device").get<int>());
  out.command = line.at("command").get<std::uint32_t>();
  out.result = line.at("result").get<std::int64_t>();
  out.address = line.at("address").get<std::uint64_t>();
  out.length = line.at("length").get<std::uint64_t>();
  out.head = bytes_of(line.at("head").get<std::string>());
  out.tail = bytes_of(line.at("tail").get<std::string>());
  out.params = bytes_of(line.at("params").get<std::string>());
  return out;
}

TEST(GpuTrace, that_was_saved_gives_what_the_program_held_after_each_call) {
  std::ifstream file(OOMCAST_TESTS "/unit/app/gpu_kinds.jsonl");
  ASSERT_TRUE(file);
  GpuMemory memory;
  std::vector<std::pair<Bytes, Bytes>> held;  // device, pinned; where it changed
  for (std::string line; std::getline(file, line);) {
    wire::GpuCall call = call_of(nlohmann::json::parse(line));
    auto op = decode_gpu_call(call, GpuDriverVersion{535, 183, 1});
    if (!op) continue;
    memory.on(call.time, call.task.id, *op);
    const GpuHeld* now = memory.of(call.task.id);
    ASSERT_TRUE(now);
    if (held.empty() || held.back() != std::pair(now->device, now->pinned))
      held.emplace_back(now->device, now->pinned);
  }
  const std::vector<std::pair<Bytes, Bytes>> told = {
      {Bytes{}, Bytes{}}, {Bytes{}, MiB(16)}, {Bytes{}, MiB(20)},
      {Bytes{}, MiB(22)}, {MiB(8), MiB(22)},  {Bytes{}, Bytes{}},
  };
  EXPECT_EQ(held, told);
}

}  // namespace
}  // namespace oomcast
