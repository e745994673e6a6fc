#include "blame/roles.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using Kind = ProcessRole::Kind;

ProcessRef process(std::uint32_t pid, std::uint32_t parent, std::vector<std::string> args,
                   std::string comm = "python3") {
  ProcessRef p;
  p.id = {pid, pid};
  p.ppid = parent;
  p.comm = std::move(comm);
  p.cmdline = std::move(args);
  return p;
}

TEST(Roles, tell_the_launcher_from_the_trainer_and_its_compile_workers) {
  std::vector<ProcessRef> all = {process(100, 1, {"uv", "run", "train.py"}, "uv"),
                                 process(141495, 100, {"python3", "train.py"})};
  for (std::uint32_t i = 0; i < 20; ++i)
    all.push_back(process(200000 + i, 141495,
                          {"python3", "/x/torch/_inductor/compile_worker/__main__.py", "--workers=20"}));
  auto roles = find_roles(all, {});
  EXPECT_EQ(roles[0].kind, Kind::launcher);
  EXPECT_EQ(roles[1].kind, Kind::parent);
  EXPECT_EQ(roles[1].workers, 20u);
  EXPECT_EQ(roles[2].kind, Kind::worker);
  EXPECT_EQ(roles[2].what, "compile");
  EXPECT_EQ(roles[2].of, 141495u);
}

TEST(Roles, take_a_forked_child_for_a_worker_and_another_program_for_none) {
  auto roles = find_roles(std::vector<ProcessRef>{process(10, 1, {"python3", "train.py"}),
                                                  process(11, 10, {"python3", "train.py"}),
                                                  process(12, 10, {"python3", "train.py"}, "pt_data_worker"),
                                                  process(13, 10, {"ffmpeg", "-i", "x"}, "ffmpeg")},
                          {});
  EXPECT_EQ(roles[0].kind, Kind::parent);
  EXPECT_EQ(roles[0].workers, 2u);
  EXPECT_EQ(roles[1].kind, Kind::worker);
  EXPECT_EQ(roles[1].what, "");
  EXPECT_EQ(roles[2].what, "DataLoader");
  EXPECT_EQ(roles[3].kind, Kind::alone);
}

TEST(Roles, read_the_rank_from_the_environment_or_the_arguments) {
  using std::string_literals::operator""s;
  auto roles = find_roles(
      std::vector<ProcessRef>{process(1, 0, {"python3", "-m", "torch.distributed.run", "train.py"}),
                              process(2, 1, {"python3", "train.py", "--local-rank=3"}),
                              process(3, 1, {"python3", "train.py", "--local_rank", "4"}),
                              process(4, 1, {"python3", "train.py"}), process(5, 1, {"python3", "train.py"})},
      std::vector<std::string>{"", "", "", "A=1\0LOCAL_RANK=0\0RANK=7\0"s, "RANK=seven\0"s});
  EXPECT_EQ(roles[0].kind, Kind::launcher);
  EXPECT_EQ(roles[1].rank, 3u);
  EXPECT_EQ(roles[2].rank, 4u);
  EXPECT_EQ(roles[3].rank, 7u);
  EXPECT_EQ(roles[4].rank, std::nullopt);
}

TEST(Roles, survive_a_process_that_is_its_own_parent_or_shows_nothing) {
  ProcessRef nameless;
  nameless.id = {9, 9};
  auto roles = find_roles(std::vector<ProcessRef>{process(8, 8, {}), nameless, process(8, 8, {"x"})}, {});
  ASSERT_EQ(roles.size(), 3u);
  EXPECT_EQ(roles[0].kind, Kind::alone);
}

}  // namespace
}  // namespace oomcast
