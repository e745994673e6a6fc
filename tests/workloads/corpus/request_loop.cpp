// Healthy: requests of all sizes, their answers, a cache that is full.
#include <list>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "corpus.h"

namespace {

std::map<int, std::string> cache;
std::list<int> order;

[[gnu::noinline]] std::string render(int page) {
  std::ostringstream out;
  for (int i = 0; i < 50; ++i) out << "row " << i << " of page " << page << "\n";
  return out.str();
}

[[gnu::noinline]] const std::string& page_of(int page) {
  auto at = cache.find(page);
  if (at == cache.end()) {
    at = cache.emplace(page, render(page)).first;
    order.push_back(page);
    if (order.size() > 1000) {
      cache.erase(order.front());
      order.pop_front();
    }
  }
  return at->second;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  bool told = false;
  for (;;) {
    std::string answer = page_of(static_cast<int>(random() % 3000));
    answer += render(static_cast<int>(random() % 100));
    asm volatile("" : : "r"(answer.data()) : "memory");
    if (!told && order.size() == 1000) {
      corpus_ready("");
      told = true;
    }
    if (told) corpus_step(500);
  }
}
