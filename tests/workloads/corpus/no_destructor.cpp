// Codecs whose destructor was forgotten: each leaves its table.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "corpus.h"

namespace {

class Codec {
 public:
  [[gnu::noinline]] explicit Codec(int i) : table_(new int[kEntries]) {
    std::fill_n(table_, kEntries, i);
    corpus_keeps(kEntries * sizeof(int));
  }
  [[gnu::noinline]] std::string decode() const {
    std::string text;
    for (int i = 0; i < kEntries; i += 3) text += static_cast<char>('a' + table_[i] % 26);
    return text;
  }

 private:
  static constexpr int kEntries = 2000;
  int* table_;
};

}  // namespace

int main() {
  corpus_ready("Codec::Codec");
  for (int i = 0;; ++i) {
    auto codec = std::make_unique<Codec>(i);
    std::string text = codec->decode();
    asm volatile("" : : "r"(text.data()) : "memory");
    corpus_step(2500);
  }
}
