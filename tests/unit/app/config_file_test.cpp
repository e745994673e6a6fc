#include "app/config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "app/options.h"
#include "fixture_tree.h"

namespace oomcast {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Config : testing::Test {
  FixtureTree tree;
  std::string write(const std::string& text) {
    tree.write("etc/oomcast.conf", text);
    return tree.path("etc/oomcast.conf");
  }
  Result<ParsedArguments> parse(const std::string& text, std::vector<const char*> more = {}) {
    std::string path = write(text);
    std::vector<const char*> words = {"oomcast", "daemon", "--config", path.c_str()};
    words.insert(words.end(), more.begin(), more.end());
    return parse_arguments(static_cast<int>(words.size()), words.data(), "1");
  }
};

TEST_F(Config, has_keys_and_values_in_their_order_and_lists_one_by_one) {
  auto read = read_config(
      write("# a comment\nstore-max = \"2G\"\n\nalert = [\"eta<20m\", \"level>90% for 1m\"]\n"), true);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, (Settings{{"store-max", "2G"}, {"alert", "eta<20m"}, {"alert", "level>90% for 1m"}}));
}

TEST_F(Config, that_is_missing_is_an_error_only_where_it_was_named) {
  EXPECT_TRUE(read_config(tree.path("etc/none"), false)->empty());
  EXPECT_FALSE(read_config(tree.path("etc/none"), true));
}

TEST_F(Config, is_a_regular_file_of_bounded_size_without_sections) {
  write("");
  std::string pipe = tree.path("etc/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_config(pipe, true)) << "it would be waited for";
  EXPECT_FALSE(read_config(write(std::string(kMaxConfig + 1, '#')), true));
  auto section = read_config(write("[store]\nmax = 1\n"), true);
  ASSERT_FALSE(section);
  EXPECT_NE(section.error().message.find("in a section"), std::string::npos) << section.error().message;
}

TEST_F(Config, is_read_as_the_flags_of_the_command_which_count_before_it) {
  auto parsed = parse("store-max = \"2G\"\nno-kmsg = true\nquiet = false\nalert = \"eta<20m\"\n",
                      {"--store-max", "4G"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Options& o = parsed->options;
  EXPECT_EQ(o.store.limits.size, GiB(4));
  EXPECT_FALSE(o.sources.use_kmsg);
  EXPECT_FALSE(o.output.quiet);
  EXPECT_EQ(o.alert.rules.size(), 1u);
}

TEST_F(Config, names_the_key_that_is_none_and_the_one_that_was_meant) {
  for (auto [text, wanted] :
       {std::pair("storemax = \"2G\"\n", "'storemax' is no setting; did you mean --store-max?"),
        {"config = \"/etc/other\"\n", "'config' is no setting"},
        {"gpu-test = \"x\"\n", "'gpu-test' is no setting"},
        {"quiet = \"often\"\n", "'quiet' is true or false"},
        {"store-max = \"much\"\n", "--store-max"}}) {
    auto parsed = parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().exit_code, 2) << text;
    EXPECT_NE(parsed.error().message.find(wanted), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace oomcast
