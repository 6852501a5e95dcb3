#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace ranvier::storage {

/// A statement failed: a full or failing disk, a damaged file, or a fault of ours. what() is a sentence that names the
/// database's file and what SQLite said.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The database was made by a newer binary: serve ends with 78 (DESIGN section 3).
struct newer_database : error {
  using error::error;
};
/// Server name or signing key aren't those that the database was made with.
struct other_identity : error {
  using error::error;
};

/// One running statement; given back to the database's cache, reset, when it goes out of scope, so that no read
/// transaction stays open by accident.
class query {
public:
  query(query&& other) noexcept;
  query(const query&) = delete;
  query& operator=(const query&) = delete;
  query& operator=(query&&) = delete;
  ~query();

  /// Next row; false at the end. Throws error.
  bool step();
  std::int64_t integer(int column) const;
  std::string text(int column) const;
  /// Valid until the next step.
  std::string_view view(int column) const;
  bool null(int column) const;

private:
  friend class database;
  query(class database& owner, std::string_view sql, sqlite3_stmt* statement);
  void bind(int at, std::int64_t value);
  void bind(int at, std::string_view value);
  void bind(int at, std::nullptr_t);
  template <class T> void bind(int at, const std::optional<T>& value) {
    if (value) bind(at, *value);
    else bind(at, nullptr);
  }

  database* owner_;
  std::string_view sql_;
  sqlite3_stmt* statement_;
};

/// A connection, used by one thread. Statements are prepared once and kept. `sql` must be a string literal (the cache
/// keeps its address).
class database {
public:
  enum class mode { write, read };
  /// Throws error. mode::write makes the file if it is missing, and sets WAL with full durability.
  database(const std::string& path, mode how);
  ~database();
  database(const database&) = delete;
  database& operator=(const database&) = delete;

  /// A statement with its parameters bound, not yet stepped.
  template <class... Values> query ask(std::string_view sql, const Values&... values) {
    query made = take(sql);
    int at = 0;
    (made.bind(++at, widened(values)), ...);
    return made;
  }
  /// Runs a statement to its end.
  template <class... Values> void run(std::string_view sql, const Values&... values) {
    query made = ask(sql, values...);
    while (made.step()) {
    }
  }
  /// First column of the first row; nothing if there is no row or it is NULL.
  template <class... Values> std::optional<std::int64_t> integer(std::string_view sql, const Values&... values) {
    query made = ask(sql, values...);
    if (!made.step() || made.null(0)) return {};
    return made.integer(0);
  }
  template <class... Values> std::optional<std::string> text(std::string_view sql, const Values&... values) {
    query made = ask(sql, values...);
    if (!made.step() || made.null(0)) return {};
    return made.text(0);
  }
  /// Several statements that aren't kept (schema).
  void script(const std::string& sql);

  std::int64_t changes() const;       ///< rows changed by the last statement
  std::int64_t total_changes() const; ///< rows changed since it was opened
  std::int64_t last_row() const;      ///< rowid of the last insert
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

private:
  friend class query;
  static std::int64_t widened(std::int64_t value) { return value; }
  static std::int64_t widened(int value) { return value; }
  static std::int64_t widened(bool value) { return value ? 1 : 0; }
  static std::string_view widened(std::string_view value) { return value; }
  static std::string_view widened(const std::string& value) { return value; }
  static std::string_view widened(const char* value) { return value; }
  template <class T> static const std::optional<T>& widened(const std::optional<T>& value) { return value; }

  query take(std::string_view sql);
  void give_back(std::string_view sql, sqlite3_stmt* statement);
  [[noreturn]] void fail(std::string_view doing) const;
  void close() noexcept;

  std::string path_;
  sqlite3* handle_ = nullptr;
  std::map<const char*, std::vector<sqlite3_stmt*>> idle_;
};

/// BEGIN IMMEDIATE ... COMMIT; rolled back if it goes out of scope uncommitted.
class transaction {
public:
  explicit transaction(database& db);
  ~transaction();
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;
  void commit(); ///< throws error; then everything was rolled back
  /// SQLite gave it up by itself, as after a full disk: nothing may be written under it any more.
  bool lost() const;

private:
  database& db_;
  bool open_ = true;
};

/// One asker's writes inside a transaction: undone alone if it goes out of scope unreleased.
class savepoint {
public:
  explicit savepoint(database& db);
  ~savepoint();
  savepoint(const savepoint&) = delete;
  savepoint& operator=(const savepoint&) = delete;
  void release();

private:
  database& db_;
  bool open_ = true;
};

/// What several SELECTs see is one moment of the database while this lives.
class snapshot {
public:
  explicit snapshot(database& db);
  ~snapshot();
  snapshot(const snapshot&) = delete;
  snapshot& operator=(const snapshot&) = delete;

private:
  database& db_;
};

} // namespace ranvier::storage
