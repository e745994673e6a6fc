#include "app/rss_tracing.h"

#include <gtest/gtest.h>

#include "app/fake_bpf_source.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Traced {
  std::shared_ptr<test::FakePrograms> programs = std::make_shared<test::FakePrograms>();
  test::FakeBpfSource source{programs};
  RssTracing tracing{source};
  MonoTime start{1h};
};

TEST(RssTracing, follows_each_change_while_something_is_nearly_full_and_for_five_seconds_after) {
  Traced t;
  t.tracing.advance(std::nullopt, t.start);
  EXPECT_FALSE(t.programs->exact);
  t.tracing.advance(t.start, t.start);
  EXPECT_TRUE(t.programs->exact);
  t.tracing.advance(t.start, t.start + 4s);
  EXPECT_TRUE(t.programs->exact) << "as of the last time that it was seen to be";
  t.tracing.advance(t.start, t.start + 10s);
  EXPECT_FALSE(t.programs->exact);
}

TEST(RssTracing, follows_each_change_at_once_where_a_cgroup_of_the_scope_moves) {
  Traced t;
  t.tracing.on_moved(t.start);
  EXPECT_TRUE(t.programs->exact);
  t.tracing.advance(std::nullopt, t.start + 4s);
  EXPECT_TRUE(t.programs->exact);
  t.tracing.on_moved(t.start + 4s);
  t.tracing.advance(std::nullopt, t.start + 6s);
  EXPECT_TRUE(t.programs->exact) << "it moved again";
  t.tracing.advance(std::nullopt, t.start + 9s);
  EXPECT_FALSE(t.programs->exact);
}

}  // namespace
}  // namespace oomcast
