// Its own allocator has an operator new of its own, which throws what a caller catches; one line keeps.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "corpus.h"

extern "C" {
void* __libc_malloc(std::size_t size);
void __libc_free(void* block);
[[gnu::noinline]] void* malloc(std::size_t size) {
  return __libc_malloc(size);
}
[[gnu::noinline]] void free(void* block) {
  __libc_free(block);
}
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (size > std::size_t{1} << 40) throw std::bad_alloc();
  return __libc_malloc(size);
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  __libc_free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  __libc_free(block);
}

namespace {

[[gnu::noinline]] bool ask_for_too_much() {
  volatile std::size_t size = std::size_t{1} << 41;
  try {
    ::operator delete(::operator new(size));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

[[gnu::noinline]] void keep_row(int i) {
  auto* row = static_cast<char*>(::operator new(16000));
  std::memset(row, i, 16000);
  asm volatile("" : : "r"(row) : "memory");
  corpus_keeps(16000);
}

}  // namespace

int main() {
  corpus_ready("keep_row");
  for (int i = 0;; ++i) {
    if (ask_for_too_much()) return 1;
    std::free(std::malloc(100));
    keep_row(i);
    corpus_step(2000);
  }
}
