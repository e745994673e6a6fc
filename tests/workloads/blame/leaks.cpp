// leaks KIND BYTES: as leaks.py, for native code; the function that grows is called culprit_KIND.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kChunk = 64 << 10;
constexpr useconds_t kPauseUs = 2000;  // as in leaks.py
constexpr std::size_t kPassing = 1 << 10;
std::size_t total;
std::vector<void*> kept;

[[gnu::noinline]] void passing_work() {
  auto* block = static_cast<char*>(malloc(kPassing));
  std::memset(block, 1, kPassing);
  asm volatile("" : : "r"(block) : "memory");
  free(block);
}

struct Cache {
  std::map<std::string, std::string> entries;
  [[gnu::noinline]] void culprit_method(std::size_t i) {
    entries.emplace(std::to_string(i), std::string(kChunk, 'x'));
    asm volatile("" : : : "memory");
  }
};
Cache cache;

}  // namespace

extern "C" {

[[gnu::noinline]] void culprit_malloc(std::size_t) {
  void* block = malloc(kChunk);
  std::memset(block, 1, kChunk);
  kept.push_back(block);
  asm volatile("" : : : "memory");
}

// Touches the pages that the next block then lies in, and keeps nothing.
[[gnu::noinline]] void innocent_touch() {
  void* block = malloc(kChunk);
  std::memset(block, 1, kChunk);
  asm volatile("" : : "r"(block) : "memory");
  free(block);
}

[[gnu::noinline]] void culprit_hole(std::size_t i) {
  innocent_touch();
  culprit_malloc(i);
  asm volatile("" : : : "memory");
}

// One array that grows in realloc().
[[gnu::noinline]] void culprit_realloc(std::size_t i) {
  static void* all = nullptr;
  all = realloc(all, (i + 1) * kChunk);
  std::memset(static_cast<char*>(all) + i * kChunk, 1, kChunk);
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void culprit_mmap(std::size_t) {
  void* block = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::size_t at = 0; at < kChunk; at += 4096) static_cast<char*>(block)[at] = 1;
  asm volatile("" : : : "memory");
}

// Gives back most of what it maps: only what stays may count.
[[gnu::noinline]] void innocent_churn() {
  constexpr std::size_t size = 8 << 20;
  void* block = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::size_t at = 0; at < size; at += 4096) static_cast<char*>(block)[at] = 1;
  munmap(block, size);
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void culprit_churn(std::size_t i) {
  culprit_malloc(i);
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void* culprit_thread(void*) {
  for (std::size_t i = 0; i < total / kChunk; ++i) {
    auto* block = static_cast<char*>(malloc(kChunk));
    usleep(kPauseUs);
    for (std::size_t at = 0; at < kChunk; at += 1024) block[at] = 1;
    kept.push_back(block);
  }
  return nullptr;
}

[[gnu::noinline]] void culprit_huge(std::size_t i) {
  static char* block = [] {
    void* at = mmap(nullptr, total + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* aligned =
        reinterpret_cast<char*>((reinterpret_cast<std::size_t>(at) + (2 << 20) - 1) & -(2ul << 20));
    madvise(aligned, total, MADV_HUGEPAGE);
    return aligned;
  }();
  for (std::size_t at = 0; at < kChunk; at += 4096) block[i * kChunk + at] = 1;
  asm volatile("" : : : "memory");
}

// All that it takes is given back before the end, each piece in another way: nothing of it stays.
[[gnu::noinline]] void innocent_returns() {
  constexpr std::size_t size = 8 << 20;
  auto map = [] {
    return static_cast<char*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  char* pieces[] = {map(), map(), static_cast<char*>(sbrk(size))};
  for (char* piece : pieces)
    for (std::size_t at = 0; at < size; at += 4096) piece[at] = 1;
  if (pid_t child = fork(); child == 0) {
    for (std::size_t at = 0; at < size; at += 4096) pieces[0][at] = 2;
    usleep(100'000);
    _exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  usleep(500'000);
  munmap(pieces[0], size);
  madvise(pieces[1], size, MADV_DONTNEED);
  sbrk(-static_cast<intptr_t>(size));
  usleep(500'000);  // what comes next may take the same places
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void culprit_populate(std::size_t) {
  mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  asm volatile("" : : : "memory");
}

// Of the pool, a page each time that so much is due.
[[gnu::noinline]] void culprit_hugetlb(std::size_t i) {
  constexpr std::size_t size = 2 << 20;
  if (i % (size / kChunk) != 0) return;
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (page == MAP_FAILED) _exit(1);
  std::memset(page, 1, size);
}

[[gnu::noinline]] void culprit_tmpfs(std::size_t) {
  static const int fd = [] {
    char name[] = "/dev/shm/oomcast-leak-XXXXXX";
    int made = mkstemp(name);
    unlink(name);
    return made;
  }();
  static const std::string chunk(kChunk, 't');
  if (write(fd, chunk.data(), chunk.size()) < 0) _exit(1);
}
}

void step(const std::string& kind, std::size_t i) {
  passing_work();
  usleep(kPauseUs);
  if (kind == "malloc") culprit_malloc(i);
  if (kind == "hole") culprit_hole(i);
  if (kind == "realloc") culprit_realloc(i);
  if (kind == "mmap") culprit_mmap(i);
  if (kind == "huge") culprit_huge(i);
  if (kind == "method") cache.culprit_method(i);
  if (kind == "churn") {
    if (i % 4 == 0) innocent_churn();
    culprit_churn(i);
  }
  if (kind == "returns") culprit_malloc(i);
  if (kind == "populate") culprit_populate(i);
  if (kind == "hugetlb") culprit_hugetlb(i);
  if (kind == "tmpfs") culprit_tmpfs(i);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  bool ends = argc > 3;  // for tools that tell when their program has ended
  std::string kind = argv[1];
  total = strtoull(argv[2], nullptr, 10);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("{\"event\":\"ready\"}\n");
  char go = 0;
  std::size_t chunks = 0;
  if (read(0, &go, 1) < 0) return 1;
  if (kind == "thread") {
    pthread_t thread;
    pthread_create(&thread, nullptr, culprit_thread, nullptr);
    pthread_join(thread, nullptr);
  } else {
    if (kind == "returns") innocent_returns();
    for (; chunks < total / kChunk; ++chunks) step(kind, chunks);
  }
  printf("{\"event\":\"grown\",\"pid\":%d,\"bytes\":%zu}\n", getpid(), total);
  if (ends) return 0;
  while (read(0, &go, 1) == 1) step(kind, chunks++);
  for (;;) pause();
}
