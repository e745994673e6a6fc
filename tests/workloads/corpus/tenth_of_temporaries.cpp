// A cache that keeps every tenth block, among temporaries of all sizes.
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "corpus.h"

namespace {

std::map<int, char*> cache;

[[gnu::noinline]] char* temporary(std::size_t size) {
  char* block = new char[size];
  std::memset(block, 1, size);
  asm volatile("" : : "r"(block) : "memory");
  return block;
}

[[gnu::noinline]] void remember(int key) {
  char* block = new char[300];
  std::memset(block, 2, 300);
  cache[key] = block;
  corpus_keeps(300 + 48);  // and the node of the tree
}

}  // namespace

int main() {
  corpus_ready("remember");
  for (int i = 0;; ++i) {
    char* block = temporary(100 + static_cast<std::size_t>(i) % 3000);
    if (i % 10 == 0) remember(i);
    delete[] block;
    if (i % 200 == 0) corpus_step(1000);
  }
}
