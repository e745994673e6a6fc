// Traces of the driver's calls, as scripts/gpu-check --save keeps them: decoded and followed again, they give
// what the programs held. gpu_kinds.jsonl is of the stand-in for the driver (sequence "kinds" of
// gpu_program.py), gpu_h200.jsonl of scripts/gpu-check on an H200 with driver 580.159.04 and CUDA 13.0; of
// it, another uuid is in the file.
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

using namespace std::chrono_literals;

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

std::vector<wire::GpuCall> calls_of(const std::string& name) {
  std::ifstream file(OOMCAST_TESTS "/unit/app/" + name);
  std::vector<wire::GpuCall> out;
  for (std::string line; std::getline(file, line);) out.push_back(call_of(nlohmann::json::parse(line)));
  return out;
}

TEST(GpuTrace, that_was_saved_gives_what_the_program_held_after_each_call) {
  GpuMemory memory;
  std::vector<std::pair<Bytes, Bytes>> held;  // device, pinned; where it changed
  for (const wire::GpuCall& call : calls_of("gpu_kinds.jsonl")) {
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

// What scripts/gpu-check printed beside it: equal to what nvidia-smi said at each step, to the MiB.
constexpr GpuDriverVersion kH200Driver{580, 159, 4};
constexpr std::uint32_t kCudaProgram = 469, kTorchProgram = 504;

// MiB on the card whenever the program paused, each change once.
std::vector<std::int64_t> on_card_at_pauses(std::uint32_t pid) {
  GpuMemory memory;
  std::vector<std::int64_t> out;
  std::optional<MonoTime> last;
  auto pause = [&](TaskId task) {
    std::int64_t now = memory.of(task)->device.count >> 20;
    if (out.empty() || out.back() != now) out.push_back(now);
  };
  for (const wire::GpuCall& call : calls_of("gpu_h200.jsonl")) {
    if (call.task.id.tgid != pid) continue;
    if (last && call.time - *last > 250ms) pause(call.task.id);
    last = call.time;
    if (auto op = decode_gpu_call(call, kH200Driver)) memory.on(call.time, call.task.id, *op);
  }
  pause({pid, 1});
  return out;
}

TEST(GpuTrace, of_an_h200_gives_at_each_step_of_a_cuda_program_what_nvidia_smi_said) {
  EXPECT_EQ(on_card_at_pauses(kCudaProgram),
            (std::vector<std::int64_t>{518, 774, 518, 774, 518, 646, 518, 646}));
}

TEST(GpuTrace, of_an_h200_gives_at_each_step_of_pytorch_what_nvidia_smi_said) {
  EXPECT_EQ(on_card_at_pauses(kTorchProgram), (std::vector<std::int64_t>{612, 692, 752, 812, 872, 610}));
}

TEST(GpuTrace,
     of_an_h200_tells_what_the_card_has_before_anything_is_allocated_and_the_context_from_the_program) {
  GpuMemory memory;
  TaskId program{kCudaProgram, 1};
  std::optional<Bytes> known_at_first;
  for (const wire::GpuCall& call : calls_of("gpu_h200.jsonl")) {
    auto op = decode_gpu_call(call, kH200Driver);
    if (!op || call.task.id != program) continue;
    bool first = op->what == GpuOp::What::alloc && memory.of(program)->device == Bytes{};
    if (first && !memory.cards().empty()) known_at_first = memory.cards().begin()->second.memory;
    memory.on(call.time, program, *op);
  }
  EXPECT_EQ(known_at_first, Bytes{150'109'880'320}) << "as cuDeviceTotalMem says";
  EXPECT_EQ(memory.of(program)->overhead, MiB(518) + MiB(78) - KiB(4)) << "on the card, and pinned";
}

}  // namespace
}  // namespace oomcast
