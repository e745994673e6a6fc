#include "collect/container_names.h"

#include <gtest/gtest.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

using Names = std::vector<std::string>;

const std::string id_1(64, 'a'), id_2(64, 'b');

TEST(ContainerNames, are_those_that_docker_keeps) {
  FixtureTree tree;
  tree.write("var/lib/docker/containers/" + id_1 + "/config.v2.json",
             R"({"State":{"Running":true},"ID":")" + id_1 + R"(","Name":"/trainer","Driver":"overlay2"})");
  auto names = names_of_containers(tree.roots(), {id_1, id_2});
  EXPECT_EQ(names[id_1], Names{"trainer"});
  EXPECT_FALSE(names.contains(id_2));
}

TEST(ContainerNames, are_those_that_podman_keeps_of_the_containers_that_are_asked_for) {
  FixtureTree tree;
  tree.write("var/lib/containers/storage/overlay-containers/containers.json",
             R"([{"id":")" + id_1 + R"(","names":["trainer","old"],"layer":"x"},{"id":")" + id_2 +
                 R"(","names":["web"]},{"id":")" + std::string(64, 'c') + R"("}])");
  auto names = names_of_containers(tree.roots(), {id_1, std::string(64, 'c')});
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(names[id_1], (Names{"trainer", "old"}));
}

TEST(ContainerNames, of_what_is_no_id_or_no_such_file_are_none) {
  FixtureTree tree;
  tree.write("var/lib/docker/containers/web/config.v2.json", R"({"Name":"/web"})");
  tree.write("var/lib/docker/containers/" + id_1 + "/config.v2.json", R"({"Name":["/web"]})");
  tree.write("var/lib/docker/containers/" + id_2 + "/config.v2.json", "{\"Name\":\"/we");
  for (const char* list : {"", "{}", "[1,[],{}]", R"([{"id":7,"names":["x"]}])",
                           R"([{"id":"web","names":7}])", R"([{"id":"web","names":{"x":[]}}])"}) {
    tree.write("var/lib/containers/storage/overlay-containers/containers.json", list);
    EXPECT_TRUE(names_of_containers(tree.roots(), {"web", "../etc", id_1, id_2}).empty()) << list;
  }
}

}  // namespace
}  // namespace oomcast
