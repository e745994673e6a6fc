#include "store/growth_rows.h"

#include <string>
#include <vector>

namespace oomcast {
namespace {

constexpr std::size_t kMaxSites = 64;  // and containers
using Note = std::function<void(const Statement&, std::string_view)>;

// A row's first column says of which of them it is.
template <typename Of, typename Each>
void of_each(Statement& row, std::int64_t episode, std::vector<Of>& all, const Each& each) {
  row << episode;
  while (row.row())
    if (auto of = row.number(0); of && *of < all.size()) each(all[*of]);
}

CodePlace place_of(const Statement& row) {
  return {row.text(1), row.text(2), row.number(3)};
}

void read_evidence(sqlite3* db, std::int64_t episode, GrowthOrigins& out, const Note& note) {
  Statement holder(db, "SELECT site, path FROM growth_holders WHERE episode=? LIMIT 64");
  of_each(holder, episode, out.sites, [&](GrewFrom& site) { site.evidence.held_by = holder.text(1); });
  note(holder, "what holds it");
  Statement row(db,
                "SELECT site, sure, kept, kept_error, kept_unknown, touched, adds, samples, lost,"
                " faults_watched FROM growth_evidence WHERE episode=? LIMIT 64");
  of_each(row, episode, out.sites, [&](GrewFrom& site) {
    GrowthEvidence& known = site.evidence;
    known.sure = row.size(1);
    known.kept = row.bytes(2);
    known.kept_error = row.bytes(3);
    known.kept_unknown = row.text(4);
    known.touched = row.bytes(5);
    known.adds = row.integer(6) != 0;
    site.samples = row.count(7);
    site.lost = row.count(8);
    if (!row.null(9)) site.faults_watched = row.real(9);
  });
  note(row, "what is known of where they grew");
}

void read_containers(sqlite3* db, std::int64_t episode, Rows& rows, GrowthOrigins& out, const Note& note) {
  Statement row(db,
                "SELECT process, path, type, added_type, containers, length, added, least, of, watched_s,"
                " from_ns, to_ns, adder_seen, adds_seen FROM growth_containers WHERE episode=? ORDER BY nr");
  row << episode;
  while (out.holders.size() < kMaxSites && row.row()) {
    GrownHolder& h = out.holders.emplace_back();
    h.process = rows.process(row, 0);
    h.path = row.text(1);
    h.type = row.text(2);
    h.added_type = row.text(3);
    h.containers = row.count(4).value_or(1);
    h.length = static_cast<std::uint64_t>(row.integer(5));
    h.added = static_cast<std::uint64_t>(row.integer(6));
    h.least = row.size(7);
    h.of = row.size(8);
    h.watched = row.duration(9);
    h.from = rows.time(row, 10);
    h.to = rows.time(row, 11);
    h.adder_seen = static_cast<std::uint64_t>(row.integer(12));
    h.adds_seen = static_cast<std::uint64_t>(row.integer(13));
  }
  note(row, "the containers that grew");
  Statement code(
      db,
      "SELECT container, function, file, line FROM growth_adders WHERE episode=? AND nr<8 ORDER BY container,"
      " nr LIMIT 1024");
  of_each(code, episode, out.holders, [&](GrownHolder& holder) { holder.adder.push_back(place_of(code)); });
  note(code, "the lines that add to them");
}

}  // namespace

void read_growth(sqlite3* db, std::int64_t episode, Rows& rows, GrowthOrigins& out, const Note& note) {
  Statement site(db, "SELECT " + columns::growth_site + " FROM growth_sites WHERE episode=? ORDER BY nr");
  site << episode;
  while (out.sites.size() < kMaxSites && site.row()) out.sites.push_back(rows.growth_site(site));
  note(site, "from where processes grew");
  Statement code(
      db,
      "SELECT site, function, file, line FROM growth_code WHERE episode=? AND nr<8 ORDER BY site, nr"
      " LIMIT 1024");
  of_each(code, episode, out.sites, [&](GrewFrom& from) { from.code.push_back(place_of(code)); });
  note(code, "the lines that grew");
  read_evidence(db, episode, out, note);
  read_containers(db, episode, rows, out, note);
}

}  // namespace oomcast
