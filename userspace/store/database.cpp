#include "store/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

namespace oomcast {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;
constexpr std::int64_t kMaxNanos = 4'000'000'000'000'000'000;  // until 2096
constexpr double kMaxSeconds = 1e11;

}  // namespace

std::string why_failed(sqlite3* db) {
  int code = sqlite3_errcode(db) & 0xff, of_system = sqlite3_system_errno(db);
  if (of_system == 0 || (code != SQLITE_IOERR && code != SQLITE_CANTOPEN)) return sqlite3_errmsg(db);
  return fmt::format("{}: {}", sqlite3_errmsg(db), std::generic_category().message(of_system));
}

Statement::Statement(sqlite3* db, const std::string& sql) {
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &stmt_, nullptr) != SQLITE_OK) stmt_ = nullptr;
}

Statement::Statement(Statement&& o) noexcept
    : stmt_(std::exchange(o.stmt_, nullptr)), at_(o.at_), state_(o.state_), ok_(o.ok_) {}

bool Statement::run() {
  bool ok = ok_ && stmt_ && sqlite3_step(stmt_) == SQLITE_DONE;
  sqlite3_reset(stmt_);
  at_ = 0;
  ok_ = true;
  return ok;
}

std::string Statement::text(int c) const {
  const void* data = sqlite3_column_blob(stmt_, c);
  auto size = static_cast<std::size_t>(sqlite3_column_bytes(stmt_, c));
  return data ? std::string(static_cast<const char*>(data), size) : std::string();
}

Bytes Statement::size(int c) const {
  return {std::clamp(integer(c), -kMaxBytes, kMaxBytes)};
}
Nanos Statement::nanos(int c) const {
  return Nanos(std::clamp(integer(c), std::int64_t{0}, kMaxNanos));
}
Seconds Statement::duration(int c) const {
  double value = real(c);
  return Seconds(std::isfinite(value) ? std::clamp(value, -kMaxSeconds, kMaxSeconds) : 0);
}
std::optional<Bytes> Statement::bytes(int c) const {
  return null(c) ? std::nullopt : std::optional(size(c));
}
std::optional<Seconds> Statement::seconds(int c) const {
  return null(c) ? std::nullopt : std::optional(duration(c));
}
std::optional<std::uint32_t> Statement::number(int c) const {
  return null(c) ? std::nullopt : std::optional(static_cast<std::uint32_t>(integer(c)));
}
std::optional<std::uint64_t> Statement::count(int c) const {
  return null(c) ? std::nullopt : std::optional(static_cast<std::uint64_t>(integer(c)));
}

void Statement::again() {
  sqlite3_reset(stmt_);
  at_ = 0;
  ok_ = true;
}

bool execute(sqlite3* db, const std::string& sql) {
  return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

std::optional<std::int64_t> ask(sqlite3* db, const std::string& sql) {
  Statement s(db, sql);
  if (!s.row() || s.null(0)) return std::nullopt;
  return s.integer(0);
}

bool make_missing(sqlite3* db, std::span<const TableText> tables) {
  return std::all_of(tables.begin(), tables.end(), [&](const TableText& t) {
    return execute(db, fmt::format("CREATE TABLE IF NOT EXISTS {}({})", t.name, t.columns));
  });
}

bool view_missing(sqlite3* db, std::span<const TableText> tables) {
  return std::all_of(tables.begin(), tables.end(), [&](const TableText& t) {
    auto there = ask(db, fmt::format("SELECT count(*) FROM main.sqlite_schema WHERE name='{}'", t.name));
    if (!there) return false;
    return *there > 0 || execute(db, fmt::format("CREATE TEMP TABLE {}({})", t.name, t.columns));
  });
}

}  // namespace oomcast
