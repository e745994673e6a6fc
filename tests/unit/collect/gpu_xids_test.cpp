#include "collect/gpu_xids.h"

#include <gtest/gtest.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

TEST(GpuXid, blames_the_process_that_its_message_names) {
  EXPECT_EQ(blamed_by_xid("pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault"), 4711u);
  EXPECT_EQ(blamed_by_xid("Ch 8, pid='4711', name=x"), 4711u);
  for (const char* none : {"", "GPU has fallen off the bus.", "pid=", "pid='<unknown>', name=<unknown>",
                           "pid=0", "pid=-3", "pid=99999999999999999999"})
    EXPECT_FALSE(blamed_by_xid(none)) << none;
}

TEST(GpuXid, is_of_the_card_that_the_driver_has_at_that_place_of_the_bus) {
  FixtureTree tree;
  tree.write(
      "proc/driver/nvidia/gpus/0000:01:00.0/information",
      "Model: \t\t NVIDIA H100\nIRQ:   \t\t 35\nGPU UUID: \t GPU-10111213-1415-1617-1819-1a1b1c1d1e1f\n");
  tree.write("proc/driver/nvidia/gpus/0000:02:00.0/information", "GPU UUID: \t GPU-unknown\n");
  auto card = gpu_at_bus(tree.roots(), "0000:01:00.0");
  ASSERT_TRUE(card);
  EXPECT_EQ(to_string(*card), "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
  EXPECT_FALSE(gpu_at_bus(tree.roots(), "0000:02:00.0")) << "the driver does not know it yet";
  for (const char* none : {"", "0000:03:00.0", "0000:01:00.0/", "../gpus/0000:01:00.0"})
    EXPECT_FALSE(gpu_at_bus(tree.roots(), none)) << none;
}

}  // namespace
}  // namespace oomcast
