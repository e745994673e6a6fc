// A server whose sessions time out from the table, and stay in the index by name.
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "corpus.h"

namespace {

struct Session {
  std::string user;
  std::vector<unsigned char> buffer;
};

class Server {
 public:
  [[gnu::noinline]] void open_session(int number) {
    auto session = std::make_shared<Session>();
    session->user = "user-" + std::to_string(number) + "-with-a-name-that-is-long";
    session->buffer.assign(3500, static_cast<unsigned char>(number));
    by_number_.push_back(session);
    index_by_name(session);
  }
  [[gnu::noinline]] void answer(int number) {
    std::string answer;
    for (int i = 0; i < 40; ++i)
      answer += "header-" + std::to_string(number + i) + ": value of some length\r\n";
    asm volatile("" : : "r"(answer.data()) : "memory");
  }
  void expire() {
    while (by_number_.size() > 500) by_number_.pop_front();
  }

 private:
  void index_by_name(const std::shared_ptr<Session>& session) {
    by_name_[session->user] = session;
    corpus_keeps(3500 + 72 + 33 +
                 72);  // the buffer, the session with its counts, its name, about a node of the index
  }
  std::deque<std::shared_ptr<Session>> by_number_;
  std::unordered_map<std::string, std::shared_ptr<Session>> by_name_;
};

}  // namespace

int main() {
  corpus_ready("Server::open_session");
  Server server;
  for (int i = 0;; ++i) {
    server.open_session(i);
    for (int k = 0; k < 5; ++k) server.answer(i);
    server.expire();
    corpus_step(1500);
  }
}
