// Six threads; the results of every fifth task are never fetched.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "corpus.h"

namespace {

std::mutex lock;
std::vector<std::vector<double>> results;

[[gnu::noinline]] double scratch(int task) {
  std::vector<double> matrix(10'000, task);
  double sum = 0;
  for (double each : matrix) sum += each;
  return sum;
}

[[gnu::noinline]] void put_result(int task) {
  std::vector<double> result(6'000, task);
  std::lock_guard guard(lock);
  results.push_back(std::move(result));
  corpus_keeps(48'000);
}

void work(int thread) {
  for (int task = 0;; ++task) {
    double sum = scratch(task + thread);
    asm volatile("" : : "r"(&sum) : "memory");
    if (task % 5 == 0) put_result(task);
    usleep(8000);
  }
}

}  // namespace

int main() {
  results.reserve(1 << 20);
  corpus_ready("put_result");
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back(work, i);
  for (;;) corpus_step(50'000);
}
