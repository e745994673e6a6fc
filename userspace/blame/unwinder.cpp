#include "blame/unwinder.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>

#include <cstring>
#include <map>
#include <string>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostFrames = 256;
constexpr pid_t kThread = 1;  // one thread is enough: each sample is its state
constexpr int kStackPointer = 7, kInstruction = 16;

struct DwflDeleter {
  void operator()(Dwfl* d) const { dwfl_end(d); }
};

// .eh_frame is in the file itself: no search for separate debug information, which may ask the network.
int no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}
int no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) {
  return -1;
}
const Dwfl_Callbacks kCallbacks = {no_elf, no_debuginfo, nullptr, nullptr};

}  // namespace

struct Unwinder::State {
  std::unique_ptr<Dwfl, DwflDeleter> dwfl;
  bool attached = false;
  std::span<const std::uint64_t, 17> registers{std::span<const std::uint64_t, 17>(kNone)};
  std::span<const std::byte> stack;
  Frames* out = nullptr;

  static constexpr std::array<std::uint64_t, 17> kNone{};

  static pid_t next_thread(Dwfl*, void* self, void** thread) {
    if (*thread) return 0;
    *thread = self;
    return kThread;
  }
  static bool get_thread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool memory_read(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* self) {
    auto& s = *static_cast<State*>(self);
    std::uint64_t at = address - s.registers[kStackPointer];
    if (at > s.stack.size() || s.stack.size() - at < sizeof(*result)) return false;
    std::memcpy(result, s.stack.data() + at, sizeof(*result));
    return true;
  }
  static bool set_registers(Dwfl_Thread* thread, void* self) {
    auto& s = *static_cast<State*>(self);
    return dwfl_thread_state_registers(thread, 0, 17, s.registers.data());
  }
  static int take(Dwfl_Frame* frame, void* self) {
    auto& out = *static_cast<State*>(self)->out;
    Dwarf_Addr pc = 0;
    bool activation = false;
    if (!dwfl_frame_pc(frame, &pc, &activation) || out.addresses.size() >= kMostFrames) return DWARF_CB_ABORT;
    out.addresses.push_back(activation ? pc : pc - 1);
    return DWARF_CB_OK;
  }
  static constexpr Dwfl_Thread_Callbacks kThreads = {next_thread,   get_thread, memory_read,
                                                     set_registers, nullptr,    nullptr};
};

Unwinder::Unwinder(const ProcessMemory& memory, std::span<const Mapping> maps)
    : state_(std::make_unique<State>()) {
  state_->dwfl.reset(dwfl_begin(&kCallbacks));
  if (!state_->dwfl) return;
  dwfl_report_begin(state_->dwfl.get());
  std::map<std::pair<std::string, std::uint64_t>, bool> seen;
  for (const Mapping& m : maps) {
    // The mapping of a file's head comes first and has its ELF header; its address is where the file begins.
    if (m.inode == 0 || m.offset != 0 || !seen.try_emplace({m.device, m.inode}).second) continue;
    UniqueFd fd(open(memory.file_of(m).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd && dwfl_report_elf(state_->dwfl.get(), m.path.c_str(), m.path.c_str(), fd.get(), m.begin, false))
      fd.release();  // libdwfl closes it
  }
  dwfl_report_end(state_->dwfl.get(), nullptr, nullptr);
  state_->attached = dwfl_attach_state(state_->dwfl.get(), nullptr, kThread, &State::kThreads, state_.get());
}

Unwinder::~Unwinder() = default;

Unwinder::Frames Unwinder::unwind(std::span<const std::uint64_t, 17> registers,
                                  std::span<const std::byte> stack) {
  Frames out;
  if (!state_->attached) {
    out.addresses.push_back(registers[kInstruction]);
    return out;
  }
  state_->registers = registers;
  state_->stack = stack;
  state_->out = &out;
  out.complete = dwfl_getthread_frames(state_->dwfl.get(), kThread, &State::take, state_.get()) == 0;
  if (out.addresses.empty()) out.addresses.push_back(registers[kInstruction]);
  return out;
}

}  // namespace oomcast
