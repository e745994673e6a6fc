// leaks KIND BYTES: as leaks.py, for native code; the function that grows is called culprit_KIND.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kChunk = 64 << 10;
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
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string kind = argv[1];
  total = strtoull(argv[2], nullptr, 10);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("{\"event\":\"ready\"}\n");
  char go = 0;
  if (read(0, &go, 1) < 0) return 1;
  if (kind == "thread") {
    pthread_t thread;
    pthread_create(&thread, nullptr, culprit_thread, nullptr);
    pthread_join(thread, nullptr);
  } else {
    for (std::size_t i = 0; i < total / kChunk; ++i) {
      passing_work();
      if (kind == "malloc") culprit_malloc(i);
      if (kind == "mmap") culprit_mmap(i);
      if (kind == "huge") culprit_huge(i);
      if (kind == "method") cache.culprit_method(i);
      if (kind == "churn") {
        if (i % 4 == 0) innocent_churn();
        culprit_churn(i);
      }
    }
  }
  printf("{\"event\":\"grown\",\"pid\":%d,\"bytes\":%zu}\n", getpid(), total);
  for (;;) pause();
}
