#include "stream/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/escape.h"
#include "stream/code_text.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr double kAnswers = 0.2;  // of its process's growth, to stand before what was only touched
constexpr double kWorthAWord = 0.1;

std::string place_of(const GrewFrom& site) {
  return site.code.empty() ? "?" : to_text(site.code.front());
}

std::string percent_of(double share) {
  return fmt::format("{:.0f} % ", 100 * share);
}

template <typename Of>
std::string of_what(const Of& from) {
  return fmt::format("of the {} that {} grew by in a {} profile", format_size(from.of),
                     describe(from.process), format_duration(from.watched));
}

// How sure, then how much.
std::tuple<bool, double> rank(double sure, double share) {
  return sure >= kAnswers ? std::tuple(true, sure) : std::tuple(false, share);
}
std::tuple<bool, double> rank(const GrowthSource& s) {
  return s.site ? rank(s.site->sure_share(), s.site->share()) : rank(s.holder->share(), s.holder->share());
}

// And most of what it holds is told with them.
bool is_named_by(const GrownHolder& holder, std::span<const GrewFrom> sites) {
  constexpr double kMost = 0.5;
  Bytes with_sites;
  for (const GrewFrom& site : sites)
    if (site.process.id == holder.process.id && site.evidence.held_by == holder.path)
      with_sites += site.evidence.sure;
  return with_sites > Bytes{} && with_sites >= scaled(holder.least, kMost);
}

// "of which 12.0 MiB were only touched there first"
std::string touched_beside(const GrewFrom& site) {
  Bytes rest = site.grown - site.evidence.sure;
  if (site.evidence.sure <= Bytes{} || GrewFrom::part(rest, site.of) < kWorthAWord) return "";
  return fmt::format("; {} more were touched first there", format_size(rest));
}

}  // namespace

bool is_better_known(const GrewFrom& a, const GrewFrom& b) {
  return rank(a.sure_share(), a.share()) > rank(b.sure_share(), b.share());
}

bool only_varied(const GrowthSource& source) {
  return source.site && source.site->of < kUsualChange && source.sure_share() <= 0;
}

std::vector<GrowthSource> growth_sources(const GrowthOrigins& origins) {
  const auto& [sites, holders] = origins;
  std::vector<GrowthSource> all;
  for (const GrownHolder& holder : holders)
    if (!is_named_by(holder, sites)) all.push_back({nullptr, &holder});
  for (const GrewFrom& site : sites) all.push_back({&site, nullptr});
  std::vector<TaskId> order;  // of processes
  for (const GrewFrom& site : sites) order.push_back(site.process.id);
  for (const GrownHolder& holder : holders) order.push_back(holder.process.id);
  auto nr = [&](const GrowthSource& s) { return std::ranges::find(order, s.process().id) - order.begin(); };
  std::ranges::stable_sort(all, [&](const GrowthSource& a, const GrowthSource& b) {
    return nr(a) != nr(b) ? nr(a) < nr(b) : rank(a) > rank(b);
  });
  return all;
}

// Of bytes: "+50 bytes" would be read as a size.
std::string describe_container(const GrownHolder& h) {
  std::string of = h.added_type.empty()      ? "objects"
                   : h.added_type == "bytes" ? "objects (bytes)"
                                             : escape_for_terminal(h.added_type);
  std::string many = h.containers > 1 ? fmt::format("{} × ", h.containers) : "";
  return fmt::format("held by {}, {}{} of {}: +{} {}", escape_for_terminal(h.path), many,
                     escape_for_terminal(h.type), h.length, h.added, of);
}

std::string describe(const GrownHolder& h) {
  std::string out = describe_container(h);
  if (h.adder.empty()) return out;
  out += ", added by " + to_text(h.adder.front());
  return h.adder_seen < h.adds_seen ? out + fmt::format(" ({} of {} seen)", h.adder_seen, h.adds_seen) : out;
}

std::string describe_holder(const GrewFrom& site, std::span<const GrownHolder> holders) {
  const std::string& path = site.evidence.held_by;
  if (path.empty()) return "";
  auto known = std::ranges::find_if(
      holders, [&](const GrownHolder& h) { return h.process.id == site.process.id && h.path == path; });
  return known == holders.end() ? "held by " + escape_for_terminal(path) : describe_container(*known);
}

std::string describe_evidence(const GrewFrom& site) {
  const GrowthEvidence& known = site.evidence;
  std::string size = format_size(known.sure > Bytes{} ? known.sure : site.grown);
  switch (known.kind()) {
    case GrowthEvidence::Kind::kept:
      if (known.kept_error) size += " ± " + format_size(*known.kept_error);
      return size + " allocated there and not freed" + touched_beside(site);
    case GrowthEvidence::Kind::added:
      return size + " added there to what holds it" + touched_beside(site);
    case GrowthEvidence::Kind::held:
      return size + " made there" + touched_beside(site);
    case GrowthEvidence::Kind::touched:
      break;
  }
  return size + " in pages first touched there";
}

std::string describe_doubt(const GrewFrom& site) {
  const GrowthEvidence& known = site.evidence;
  if (known.kind() != GrowthEvidence::Kind::touched) return "";
  if (known.kept) return "nothing that was allocated there is known to stay";
  std::string why = known.kept_unknown.empty() ? "" : ": " + escape_for_terminal(known.kept_unknown);
  return "that line may be a temporary's; what stays was not traced" + why;
}

std::string describe(const GrowthSource& source, std::span<const GrownHolder> holders) {
  if (source.holder) {
    const GrownHolder& h = *source.holder;
    return fmt::format("{}: at least {}, {}{}", describe(h), format_size(h.least), percent_of(h.share()),
                       of_what(h));
  }
  const GrewFrom& site = *source.site;
  if (only_varied(source))
    return fmt::format("nothing grew in {}: it kept {} more in a {} profile", describe(site.process),
                       format_size(site.of), format_duration(site.watched));
  const GrowthEvidence& known = site.evidence;
  std::string share = site.sure_share() > 0 ? ", " + percent_of(site.sure_share()) : " ";
  std::string size = format_size(known.sure > Bytes{} ? known.sure : site.grown);
  std::string holder = describe_holder(site, holders), doubt = describe_doubt(site), out;
  switch (known.kind()) {
    case GrowthEvidence::Kind::kept:
      if (known.kept_error) size += " ± " + format_size(*known.kept_error);
      out = fmt::format("kept by {}: {}{}{}", place_of(site), size, share, of_what(site));
      break;
    case GrowthEvidence::Kind::added:
      out = fmt::format("added by {}: {}{}{}", place_of(site), size, share, of_what(site));
      break;
    case GrowthEvidence::Kind::held:
      return fmt::format("{}; made by {}: {}{}{}{}", holder, place_of(site), size, share, of_what(site),
                         touched_beside(site));
    case GrowthEvidence::Kind::touched:
      return fmt::format("first touched by {}: {} {} ({})", place_of(site), size, of_what(site), doubt);
  }
  return out + (holder.empty() ? "" : ", " + holder) + touched_beside(site);
}

std::string describe_callers(const std::vector<CodePlace>& code) {
  std::string out;
  for (std::size_t i = 1; i < code.size(); ++i) out += (i > 1 ? ", " : "") + to_text(code[i]);
  return out;
}

std::string doubts_of(const GrewFrom& grew) {
  std::string out;
  if (grew.samples && grew.lost && *grew.lost)
    out = fmt::format("{} of {} samples were lost", *grew.lost, *grew.samples + *grew.lost);
  if (grew.faults_watched && *grew.faults_watched < 1)
    out += fmt::format("{}page faults were watched for {:.0f} % of that time", out.empty() ? "" : "; ",
                       std::ceil(100 * *grew.faults_watched));
  return out;
}

}  // namespace oomcast
