#include "app/rss_tracing.h"

namespace oomcast {

void RssTracing::on_moved(MonoTime moved) {
  if (moved + kFor <= until_) return;
  until_ = moved + kFor;
  programs_.set_exact(true);
}

void RssTracing::advance(std::optional<MonoTime> nearly_full, MonoTime now) {
  if (nearly_full && now - *nearly_full < kFor) until_ = now + kFor;
  programs_.set_exact(now < until_);
}

}  // namespace oomcast
