// Nothing leaks but a few bytes a page: its text is freed, and its title, built in a buffer as large, cut to
// its size. But each page is a little larger than the last, and a title lies between: no hole is large enough
// for what comes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "corpus.h"

namespace {

[[gnu::noinline]] char* read_page(std::size_t size) {
  char* text = static_cast<char*>(malloc(size));
  if (!text) _exit(1);
  std::memset(text, 'p', size);
  return text;
}

[[gnu::noinline]] char* title_of(char* text, std::size_t size) {
  char* title = static_cast<char*>(malloc(size));
  if (!title) _exit(1);
  int length = snprintf(title, size, "a page of %zu bytes", size);
  free(text);
  return static_cast<char*>(realloc(title, static_cast<std::size_t>(length) + 1));
}

}  // namespace

int main() {
  std::vector<char*> titles;
  titles.reserve(1 << 16);
  corpus_ready("");
  for (std::size_t size = 20'000; titles.size() < titles.capacity(); size += 64) {
    titles.push_back(title_of(read_page(size), size));
    corpus_step(15'000);
  }
  return 0;
}
