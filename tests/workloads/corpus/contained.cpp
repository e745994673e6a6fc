// A queue whose consumer is slower than its producer: for a root of its own.
#include <list>
#include <string>

#include "corpus.h"

namespace {

struct Message {
  std::string topic;
  std::string body;
};
std::list<Message> queue;

[[gnu::noinline]] void produce(int i) {
  queue.push_back({"topic", std::string(2048, static_cast<char>('a' + i % 26))});
}
[[gnu::noinline]] void consume() {
  queue.pop_front();
}

}  // namespace

int main() {
  corpus_ready("produce");
  for (int i = 0;; ++i) {
    produce(i);
    if (i % 3 == 0)
      consume();
    else
      corpus_keeps(2049 + 80);
    if (i % 4 == 0) corpus_step(3000);
  }
}
