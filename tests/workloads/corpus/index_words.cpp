// Counts words by document; a document that is done leaves its words.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "corpus.h"

namespace {

std::unordered_map<std::string, std::vector<int>> postings;

[[gnu::noinline]] std::vector<std::string> split(int document) {
  std::vector<std::string> words;
  for (int i = 0; i < 300; ++i)
    words.push_back("a word of document number " + std::to_string(document) + " at " + std::to_string(i / 3));
  return words;
}

[[gnu::noinline]] void post(const std::string& word, int document) {
  auto [at, fresh] = postings.try_emplace(word);
  if (fresh) {
    at->second.reserve(100);
    corpus_keeps(400 + 72 + word.size() + 1);
  }
  at->second.push_back(document);
}

}  // namespace

int main() {
  postings.reserve(1 << 21);
  corpus_ready("post");
  for (int document = 0;; ++document) {
    for (const std::string& word : split(document)) post(word, document);
    corpus_step(20000);
  }
}
