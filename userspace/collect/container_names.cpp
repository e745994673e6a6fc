#include "collect/container_names.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestConfig = 1 << 20, kLongestList = 16 << 20;
constexpr std::size_t kMaxContainers = 4096;

bool is_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Json read_json(const std::string& path, std::size_t longest) {
  auto text = read_file_at(AT_FDCWD, path.c_str(), longest);
  if (!text || text->size() == longest) return nullptr;
  return Json::parse(*text, nullptr, false);
}

std::optional<std::string> text_in(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

ContainerNames names_of_containers(const Roots& roots, const std::set<std::string>& ids) {
  ContainerNames out;
  std::size_t asked = 0;
  for (const std::string& id : ids) {
    if (!is_id(id) || ++asked > kMaxContainers) continue;
    auto name = text_in(
        read_json(roots.at("/var/lib/docker/containers/" + id + "/config.v2.json"), kLongestConfig), "Name");
    if (!name) continue;
    if (name->starts_with('/')) name->erase(0, 1);
    if (!name->empty()) out[id].push_back(*std::move(name));
  }
  Json list =
      read_json(roots.at("/var/lib/containers/storage/overlay-containers/containers.json"), kLongestList);
  for (const Json& container : list.is_array() ? list : Json::array()) {
    auto id = text_in(container, "id");
    if (!id || !ids.contains(*id) || !container.contains("names")) continue;
    for (const Json& name : container["names"])
      if (name.is_string()) out[*id].push_back(name.get<std::string>());
  }
  return out;
}

}  // namespace oomcast
