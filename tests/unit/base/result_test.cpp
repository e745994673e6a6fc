#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace oomcast {
namespace {

TEST(Result, of_a_value_is_ok_and_gives_it_away_once) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, of_an_error_is_not_ok) {
  Result<int> result(Error::usage("no"));
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().message, "no");
}

TEST(Error, has_the_exit_code_of_its_kind) {
  EXPECT_EQ(Error::failed("x").exit_code, 1);
  EXPECT_EQ(Error::usage("x").exit_code, 2);
  EXPECT_EQ(Error::forbidden("x").exit_code, 3);
  EXPECT_EQ(Error::from_errno("opening x", ENOENT).message, "opening x: No such file or directory");
}

}  // namespace
}  // namespace oomcast
