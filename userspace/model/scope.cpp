#include "model/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/ascii.h"
#include "base/escape.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t max_near = 5;
constexpr std::size_t min_id_prefix = 4;
constexpr std::size_t max_compared = 256;  // edit distance is quadratic, and names may be long on purpose

bool is_hex_number(std::string_view s) {
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Levenshtein distance, in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The distance of `candidate` from the input; nullopt: not similar. If one contains the other, each extra
// byte costs less than half an edit.
std::optional<double> distance(const std::string& wanted, const std::string& candidate) {
  const auto longer = std::max(wanted.size(), candidate.size());
  const auto shorter = std::min(wanted.size(), candidate.size());
  const bool contains = shorter >= 2 && (candidate.find(wanted) != std::string::npos ||
                                         wanted.find(candidate) != std::string::npos);
  if (contains) return 0.4 * static_cast<double>(longer - shorter);
  const std::size_t allowed = std::max<std::size_t>(2, wanted.size() / 3);
  if (longer - shorter > allowed) return std::nullopt;
  const std::size_t edits = edit_distance(wanted, candidate);
  if (edits > allowed || edits >= longer) return std::nullopt;
  return static_cast<double>(edits);
}

// "no cgroup matches --unit 'sshd2'; near: sshd.service, ssh.service". A candidate is compared without
// `suffix`.
Error no_match(std::string_view option, std::string_view wanted, std::vector<std::string> candidates,
               std::string_view suffix = {}) {
  auto comparable = [&](std::string_view text) {
    if (!suffix.empty() && text.ends_with(suffix)) text.remove_suffix(suffix.size());
    return to_lower(text.substr(0, max_compared));
  };
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());

  struct Near {
    double distance;
    const std::string* text;
  };
  std::vector<Near> near;
  const std::string typed = comparable(wanted);
  for (const std::string& candidate : candidates)
    if (auto far = distance(typed, comparable(candidate))) near.push_back({*far, &candidate});
  std::stable_sort(near.begin(), near.end(),
                   [](const Near& a, const Near& b) { return a.distance < b.distance; });

  std::string message = fmt::format("no cgroup matches {} '{}'", option, make_harmless(wanted));
  if (candidates.empty()) return Error::failed(message + "; there is nothing of this kind here");
  if (near.empty()) return Error::failed(message + fmt::format("; none of {} is near", candidates.size()));
  for (std::size_t i = 0; i < near.size() && i < max_near; ++i)
    message += (i == 0 ? "; near: " : ", ") + make_harmless(*near[i].text);
  return Error::failed(std::move(message));
}

// Matches without a match above them.
std::vector<CgroupId> topmost(std::vector<const KnownCgroup*> matches) {
  std::sort(matches.begin(), matches.end(),
            [](const KnownCgroup* a, const KnownCgroup* b) { return a->path.size() < b->path.size(); });
  std::vector<const KnownCgroup*> tops;
  for (const KnownCgroup* match : matches) {
    auto above = [&](const KnownCgroup* top) { return in_scope(match->path, top->path); };
    if (std::none_of(tops.begin(), tops.end(), above)) tops.push_back(match);
  }
  std::vector<CgroupId> ids;
  for (const KnownCgroup* top : tops) ids.push_back(top->id);
  return ids;
}

template <typename Matches>
std::vector<const KnownCgroup*> select(std::span<const KnownCgroup> known, Matches matches) {
  std::vector<const KnownCgroup*> out;
  for (const KnownCgroup& cgroup : known)
    if (matches(cgroup)) out.push_back(&cgroup);
  return out;
}

bool is_named_by_root(const KnownCgroup& cgroup) {
  return cgroup.named_by == 0;
}

// Cgroups with this name: root's if there are any, as users can give the name to cgroups of their own.
template <typename Matches>
std::vector<const KnownCgroup*> select_named(std::span<const KnownCgroup> known, Matches matches) {
  auto out = select(known, [&](const KnownCgroup& c) { return is_named_by_root(c) && matches(c); });
  return out.empty() ? select(known, matches) : out;
}

// The part of `path` below `point`, both normalized; nullopt: not below it.
std::optional<std::string_view> below(std::string_view path, std::string_view point) {
  if (point == "/" || !in_scope(path, point)) return std::nullopt;
  return path.substr(point.size());
}

std::string_view last_component(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_container(const KnownCgroup& cgroup) {
  return cgroup.name.kind == CgroupKind::container;
}

bool has_container_name(const KnownCgroup& cgroup, std::string_view wanted) {
  return cgroup.name.container == wanted ||
         std::find(cgroup.aliases.begin(), cgroup.aliases.end(), wanted) != cgroup.aliases.end();
}

// nullopt: no container accepted by `takes` has this name or id.
std::optional<Result<std::vector<CgroupId>>> containers_among(std::span<const KnownCgroup> known,
                                                              std::string_view wanted,
                                                              bool (*takes)(const KnownCgroup&)) {
  auto named = select(known, [&](const KnownCgroup& c) { return has_container_name(c, wanted) && takes(c); });
  if (!named.empty()) return topmost(std::move(named));

  if (wanted.size() >= min_id_prefix && is_hex_number(wanted)) {
    auto found = select(known, [&](const KnownCgroup& c) {
      return c.name.container && c.name.container->starts_with(wanted) && takes(c);
    });
    std::vector<std::string> ids;
    for (const KnownCgroup* cgroup : found) ids.push_back(*cgroup->name.container);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    if (ids.size() == 1) return topmost(std::move(found));
    if (ids.size() > 1) {
      std::string message = fmt::format("--container '{}' is short for {} containers: ", wanted, ids.size());
      for (std::size_t i = 0; i < ids.size() && i < max_near; ++i)
        message += (i ? ", " : "") + make_harmless(ids[i]);
      return Error::failed(message + (ids.size() > max_near ? ", …" : ""));
    }
  }

  auto plain = select(known, [&](const KnownCgroup& c) {
    return c.name.kind == CgroupKind::plain && last_component(c.path) == wanted && takes(c);
  });
  if (!wanted.empty() && !plain.empty()) return topmost(std::move(plain));
  return std::nullopt;
}

}  // namespace

std::string normal_path(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  while (path.starts_with('/')) path.remove_prefix(1);
  return "/" + std::string(path);
}

bool in_scope(std::string_view path, std::string_view top) {
  if (top == "/") return path.starts_with('/');
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

Result<std::vector<CgroupId>> match_cgroup(std::span<const KnownCgroup> known, const CgroupMount& mount,
                                           std::string_view wanted) {
  const std::string typed = normal_path(wanted);
  std::vector<std::string> readings = {typed};
  for (const std::string& point : {mount.mount_point, mount.machine_mount_point})
    if (auto relative = below(typed, normal_path(point))) readings.push_back(mount.kernel_path(*relative));
  for (const std::string& path : readings) {
    auto found = select(known, [&](const KnownCgroup& c) { return c.path == path; });
    if (!found.empty()) return topmost(std::move(found));
  }
  std::vector<std::string> candidates;
  for (const KnownCgroup& cgroup : known) candidates.push_back(cgroup.path);
  return no_match("--cgroup", readings.back(), std::move(candidates));
}

Result<std::vector<CgroupId>> match_container(std::span<const KnownCgroup> known, std::string_view wanted) {
  for (auto takes : {&is_named_by_root, +[](const KnownCgroup&) { return true; }})
    if (auto found = containers_among(known, wanted, takes)) return *std::move(found);

  std::vector<std::string> candidates;
  for (const KnownCgroup& cgroup : known) {
    if (!is_container(cgroup)) continue;
    candidates.push_back(cgroup.name.name);
    candidates.insert(candidates.end(), cgroup.aliases.begin(), cgroup.aliases.end());
  }
  return no_match("--container", wanted, std::move(candidates));
}

Result<std::vector<CgroupId>> match_unit(std::span<const KnownCgroup> known, std::string_view wanted) {
  const std::string service = std::string(wanted) + ".service";
  auto is_wanted = [&](const std::string& name) { return name == wanted || name == service; };
  auto found = select_named(known, [&](const KnownCgroup& c) {
    return c.name.unit &&
           (is_wanted(*c.name.unit) || (c.name.kind == CgroupKind::unit && is_wanted(c.name.name)));
  });
  if (!found.empty()) return topmost(std::move(found));
  std::vector<std::string> candidates;
  for (const KnownCgroup& cgroup : known)
    if (cgroup.name.unit) candidates.push_back(*cgroup.name.unit);
  return no_match("--unit", wanted, std::move(candidates), ".service");
}

Result<std::vector<CgroupId>> match_slurm_job(std::span<const KnownCgroup> known, std::string_view wanted) {
  const std::string_view job = wanted.substr(0, wanted.find('.'));
  const std::string_view step = wanted.substr(std::min(wanted.size(), job.size() + 1));
  auto found = select_named(known, [&](const KnownCgroup& c) {
    return c.name.slurm_job == job && (step.empty() || c.name.slurm_step == step);
  });
  if (!found.empty()) return topmost(std::move(found));
  std::vector<std::string> candidates;
  for (const KnownCgroup& cgroup : known) {
    if (!cgroup.name.slurm_job) continue;
    candidates.push_back(*cgroup.name.slurm_job);
    if (cgroup.name.slurm_step && !step.empty())
      candidates.push_back(*cgroup.name.slurm_job + "." + *cgroup.name.slurm_step);
  }
  return no_match("--slurm-job", wanted, std::move(candidates));
}

}  // namespace oomcast
