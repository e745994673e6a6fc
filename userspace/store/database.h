// SQLite as the store uses it: one owner per handle, bind in order, absent is NULL.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace oomcast {

struct DatabaseCloser {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using DatabaseHandle = std::unique_ptr<sqlite3, DatabaseCloser>;

/// Why the last call failed, with the system's error where SQLite says only "disk I/O error" or "unable to open".
std::string why_failed(sqlite3* db);

/// A prepared statement: bind in order, step, reset. False: it could not be prepared.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql);
  ~Statement() { sqlite3_finalize(stmt_); }
  Statement(Statement&& o) noexcept;
  Statement& operator=(Statement&&) = delete;
  explicit operator bool() const { return stmt_ != nullptr; }

  Statement& operator<<(std::int64_t v) { return check(sqlite3_bind_int64(stmt_, ++at_, v)); }
  Statement& operator<<(double v) { return check(sqlite3_bind_double(stmt_, ++at_, v)); }
  /// Nothing but a bool: a string literal would be one, too.
  template <std::same_as<bool> Bool>
  Statement& operator<<(Bool v) {
    return *this << std::int64_t{v};
  }
  Statement& operator<<(int v) { return *this << std::int64_t{v}; }
  Statement& operator<<(std::uint32_t v) { return *this << std::int64_t{v}; }
  Statement& operator<<(std::uint64_t v) { return *this << static_cast<std::int64_t>(v); }
  Statement& operator<<(Bytes v) { return *this << v.count; }
  Statement& operator<<(BytesPerSec v) { return *this << v.value; }
  Statement& operator<<(Seconds v) { return *this << v.count(); }
  Statement& operator<<(std::string_view v) {
    return check(sqlite3_bind_text(stmt_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT));
  }
  Statement& operator<<(const std::string& v) { return *this << std::string_view(v); }
  Statement& blob(std::string_view v) {
    return check(sqlite3_bind_blob(stmt_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT));
  }
  template <typename T>
  Statement& operator<<(const std::optional<T>& v) {
    return v ? *this << *v : check(sqlite3_bind_null(stmt_, ++at_));
  }
  /// Of a statement that gives no rows. False: it was not done; the database says why.
  bool run();

  /// True while there is a row.
  bool row() { return stmt_ && (state_ = sqlite3_step(stmt_)) == SQLITE_ROW; }
  bool failed() const { return !stmt_ || (state_ != SQLITE_ROW && state_ != SQLITE_DONE); }
  bool null(int c) const { return sqlite3_column_type(stmt_, c) == SQLITE_NULL; }
  std::int64_t integer(int c) const { return sqlite3_column_int64(stmt_, c); }
  double real(int c) const { return sqlite3_column_double(stmt_, c); }
  std::string text(int c) const;
  // Of what anybody may have written there, only so much that sums and differences of it do not overflow:
  // 64 PiB; 1970 to 2096; 3,000 years, and 0 for what is no number.
  Bytes size(int c) const;
  Nanos nanos(int c) const;
  Seconds duration(int c) const;
  std::optional<Bytes> bytes(int c) const;
  std::optional<Seconds> seconds(int c) const;
  std::optional<std::uint32_t> number(int c) const;
  std::optional<std::uint64_t> count(int c) const;
  void again();

 private:
  Statement& check(int code) {
    ok_ = ok_ && code == SQLITE_OK;
    return *this;
  }
  sqlite3_stmt* stmt_ = nullptr;
  int at_ = 0, state_ = SQLITE_DONE;
  bool ok_ = true;
};

bool execute(sqlite3* db, const std::string& sql);
/// The first column of the first row; nullopt: there is none, or it failed.
std::optional<std::int64_t> ask(sqlite3* db, const std::string& sql);

/// `columns`: what stands between the parentheses.
struct TableText {
  std::string_view name, columns;
};
/// Tables that a file of an earlier version may lack: makes them, within the caller's transaction. What is
/// there stays.
bool make_missing(sqlite3* db, std::span<const TableText> tables);
/// The same of a file that is only read: they are there, and empty, in memory.
bool view_missing(sqlite3* db, std::span<const TableText> tables);

/// Whether an (extended) result code says that the file is no database, or damaged.
inline bool is_damage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

}  // namespace oomcast
