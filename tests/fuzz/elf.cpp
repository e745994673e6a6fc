// Any bytes as a file that a process runs: symbols, unwinding, whether it is a CPython. A process that can be
// lost reads them, as a library's demangler may crash on a name; so each input has a process of its own here,
// and a finding is what goes wrong in oomcast's own code.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <vector>

#include "blame/python.h"
#include "blame/symbols.h"
#include "blame/unwinder.h"
#include "collect/process_memory.h"

extern const char begin __asm__("__executable_start"), end __asm__("etext");  // the linker's
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace oomcast;

// Exit codes: the sanitizer's, and that of a crash in the program itself; a machine that was too busy to read
// it.
constexpr int kOurs = 77, kUnread = 78;
constexpr unsigned kPatience = 5;
constexpr std::size_t kStack = 512;
char* const kAt = reinterpret_cast<char*>(0x510000000000);

void on_crash(int signal, siginfo_t*, void* context) {
  auto at = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  bool ours = at >= reinterpret_cast<std::uintptr_t>(&begin) && at < reinterpret_cast<std::uintptr_t>(&end);
  if (ours) {
    char text[96];
    int n = std::snprintf(text, sizeof(text), "signal %d at %#zx of the program\n", signal,
                          at - reinterpret_cast<std::uintptr_t>(&begin));
    (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(n));
    _exit(kOurs);
  }
  std::signal(signal, SIG_DFL);  // it comes again
}

/// What the reader does with a process that has mapped such a file.
void look(std::size_t size, const std::uint8_t* data) {
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(getpid()));
  auto maps = memory.maps();
  if (!maps) _exit(kUnread);
  auto at = reinterpret_cast<std::uint64_t>(kAt);
  std::erase_if(*maps,
                [&](const Mapping& m) { return m.begin < at || m.begin >= at + size || m.inode == 0; });
  if (maps->empty() || !memory.open_file(maps->front())) _exit(kUnread);
  (void)find_python(memory, *maps);
  MappedFiles files;
  Symbols symbols(memory, *maps, files);
  Unwinder unwinder(memory, *maps, files);
  std::array<std::byte, kStack> stack{};
  std::memcpy(stack.data(), data + size - std::min(size, kStack), std::min(size, kStack));
  for (std::uint64_t i = 0; i < 32; ++i) {
    std::array<std::uint64_t, 17> registers{};
    for (std::size_t r = 0; r < registers.size(); ++r) registers[r] = at + r * 64;
    registers[7] = 0x7f0000000000;
    registers[16] = at + size * i / 32;
    for (std::uint64_t address : unwinder.unwind(registers, stack).addresses) (void)symbols.resolve(address);
  }
}

// Coverage is counted in processes of their own, so libFuzzer learns nothing, and keeps the shortest file:
// half of the inputs begin with one of the files that it was given.
std::vector<std::vector<std::uint8_t>>& seeds() {
  static std::vector<std::vector<std::uint8_t>> all;
  return all;
}

template <typename T>
void spoil_field(std::uint8_t* data, std::size_t size, std::size_t at, std::minstd_rand& random) {
  const std::uint64_t values[] = {0,        1,    2,          7,          8,     16,       24,
                                  0x7f,     0xff, 4096,       size - 1,   size,  size + 1, 1u << 16,
                                  1u << 31, ~0u,  1ull << 40, 1ull << 63, ~0ull, random()};
  auto value = static_cast<T>(values[random() % std::size(values)]);
  if (at + sizeof(value) <= size) std::memcpy(data + at, &value, sizeof(value));
}

}  // namespace

extern "C" const char* __asan_default_options() {
  return "exitcode=77:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
         "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=0";
}
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator((*arguments)[i], none)) {
      std::ifstream file(entry.path(), std::ios::binary);
      seeds().emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return 0;
}

// Half of the time a field of the headers, a table or the unwinding; otherwise what libFuzzer does.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (!seeds().empty() && random() % 2) {
    const auto& from = seeds()[random() % seeds().size()];
    size = std::min(from.size(), most);
    std::copy_n(from.begin(), size, data);
  }
  Elf64_Ehdr header;
  if (size < sizeof(header) || random() % 2) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(&header, data, sizeof(header));
  for (unsigned left = 1 + random() % 4; left > 0; --left) {
    std::size_t at = 16 + random() % (sizeof(header) - 16);
    switch (random() % 4) {
      case 0:
        at = header.e_phoff + random() % (std::max<std::size_t>(header.e_phnum, 1) * sizeof(Elf64_Phdr));
        break;
      case 1:
        at = header.e_shoff + random() % (std::max<std::size_t>(header.e_shnum, 1) * sizeof(Elf64_Shdr));
        break;
      case 2: {  // inside of a section
        Elf64_Shdr section;
        std::size_t which =
            header.e_shoff + random() % std::max<std::size_t>(header.e_shnum, 1) * sizeof(section);
        if (which > size || size - which < sizeof(section)) break;
        std::memcpy(&section, data + which, sizeof(section));
        at = section.sh_offset + random() % std::max<std::size_t>(section.sh_size, 1);
        break;
      }
      default:
        break;
    }
    at = at >= size ? at % size : at;
    switch (random() % 4) {
      case 0:
        spoil_field<std::uint8_t>(data, size, at, random);
        break;
      case 1:
        spoil_field<std::uint16_t>(data, size, at & ~std::size_t{1}, random);
        break;
      case 2:
        spoil_field<std::uint32_t>(data, size, at & ~std::size_t{3}, random);
        break;
      default:
        spoil_field<std::uint64_t>(data, size, at & ~std::size_t{7}, random);
    }
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::size_t crashes = 0, late = 0, unread = 0, all = 0;
  static const bool counted =
      std::atexit([] {
        std::fprintf(stderr,
                     "%zu files: the libraries crashed on %zu, took more than %u s for %zu; %zu not read\n",
                     all, crashes, kPatience, late, unread);
        if (unread * 10 > all) _exit(kOurs);
      }) == 0;
  if (size == 0 || !counted) return 0;
  ++all;
  pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    alarm(kPatience);
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
    for (int signal : {SIGALRM, SIGABRT}) std::signal(signal, SIG_DFL);
    int file = memfd_create("python-of-a-stranger", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size) ||
        mmap(kAt, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
      _exit(kUnread);
    look(size, data);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) != child)
    if (errno != EINTR) std::abort();  // libFuzzer has a timer
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    ++late;
  else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT)
    ++crashes;
  else if (WIFEXITED(status) && WEXITSTATUS(status) == kUnread)
    ++unread;
  else if (status != 0) {
    std::fprintf(stderr, "status %#x\n", static_cast<unsigned>(status));
    std::abort();
  }
  return 0;
}
