#include "blame/unwinder.h"

#include <elfutils/libdwfl.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace oomcast {

struct UnwoundModule {
  MappedFiles* files = nullptr;
  std::shared_ptr<const OpenFile> file;
  std::shared_ptr<std::vector<char>> image;  // outlives libdwfl
};

namespace {

constexpr std::size_t kMaxFrames = 256, kMaxModules = 256;
constexpr pid_t kThread = 1;  // one thread is enough: each sample is its state
constexpr int kStackPointer = 7, kInstruction = 16;

// One name for all modules. dwfl_attach_state() skips modules whose name ends in " (deleted)", which it
// cannot open by name, and fails if all do: after an upgrade, or by intent of a tenant.
constexpr const char* kModule = "mapped";

// .eh_frame is in the file itself: do not search for separate debug information, possibly over the network.
int no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

// Opens the ELF image of a module. libdwfl would read whole sections, including debug information, of any
// length that the file claims: it gets an image with only unwind data, of bounded size, and shared by all
// processes.
int open_elf(Dwfl_Module*, void** own, const char*, Dwarf_Addr, char** name, Elf** elf) {
  auto* module = static_cast<UnwoundModule*>(*own);
  if (!module) return -1;
  module->image = module->files->unwinding_of(*module->file);
  if (!module->image) return -1;
  elf_version(EV_CURRENT);
  *elf = elf_memory(module->image->data(), module->image->size());
  if (!*elf) return -1;
  *name = strdup("");
  return -1;  // there is no file descriptor
}
const Dwfl_Callbacks kCallbacks = {open_elf, no_debuginfo, nullptr, nullptr};

}  // namespace

struct Unwinder::State {
  std::vector<std::unique_ptr<UnwoundModule>> modules;
  std::unique_ptr<Dwfl, Destroys<dwfl_end>> dwfl;
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
    if (!dwfl_frame_pc(frame, &pc, &activation) || out.addresses.size() >= kMaxFrames) return DWARF_CB_ABORT;
    out.addresses.push_back(activation ? pc : pc - 1);
    return DWARF_CB_OK;
  }
  static constexpr Dwfl_Thread_Callbacks kThreads = {next_thread,   get_thread, memory_read,
                                                     set_registers, nullptr,    nullptr};
};

Unwinder::Unwinder(const ProcessMemory& memory, std::span<const Mapping> maps, MappedFiles& files)
    : state_(std::make_unique<State>()) {
  state_->dwfl.reset(dwfl_begin(&kCallbacks));
  if (!state_->dwfl) return;
  dwfl_report_begin(state_->dwfl.get());
  // The mapping with the file's ELF header comes first; its address is the load address. The file's other
  // mappings follow, until another file's.
  std::set<std::pair<std::string, std::uint64_t>> seen;
  std::vector<std::pair<const Mapping*, std::uint64_t>> modules;
  bool goes_on = false;
  for (const Mapping& m : maps) {
    if (m.inode == 0) continue;
    const Mapping* last = modules.empty() ? nullptr : modules.back().first;
    goes_on = goes_on && last->inode == m.inode && last->device == m.device;
    if (goes_on) modules.back().second = m.end;
    if (goes_on || m.offset != 0 || !seen.emplace(m.device, m.inode).second) continue;
    modules.emplace_back(&m, m.end);
    goes_on = true;
  }
  for (const auto& [head, end] : modules) {
    if (state_->modules.size() >= kMaxModules) break;
    auto file = files.open(memory, *head);
    if (!file || !file->elf) continue;
    auto own_data = std::make_unique<UnwoundModule>(UnwoundModule{&files, std::move(file), nullptr});
    Dwfl_Module* module = dwfl_report_module(state_->dwfl.get(), kModule, head->begin, end);
    void** own = nullptr;
    if (!module || !dwfl_module_info(module, &own, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr))
      continue;
    *own = own_data.get();
    state_->modules.push_back(std::move(own_data));
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
