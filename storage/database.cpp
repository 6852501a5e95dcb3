#include "storage/database.hpp"

#include <sqlite3.h>

namespace ranvier::storage {

namespace {
/// Readers never block the writer in WAL, so this is met only by a checkpoint or by someone else's tool.
constexpr int busy_timeout_ms = 10'000;
} // namespace

query::query(database& owner, std::string_view sql, sqlite3_stmt* statement)
    : owner_(&owner)
    , sql_(sql)
    , statement_(statement) {}

query::query(query&& other) noexcept
    : owner_(other.owner_)
    , sql_(other.sql_)
    , statement_(other.statement_) {
  other.statement_ = nullptr;
}

query::~query() {
  if (statement_) owner_->give_back(sql_, statement_);
}

bool query::step() {
  int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  owner_->fail(sql_);
}

std::int64_t query::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string query::text(int column) const { return std::string(view(column)); }

std::string_view query::view(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (!bytes) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

bool query::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

void query::bind(int at, std::int64_t value) {
  if (sqlite3_bind_int64(statement_, at, value) != SQLITE_OK) owner_->fail(sql_);
}

void query::bind(int at, std::string_view value) {
  // What is bound must outlive the statement's use only up to its last step; callers pass temporaries, so it is copied.
  if (sqlite3_bind_text64(statement_, at, value.data() ? value.data() : "", value.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8) != SQLITE_OK)
    owner_->fail(sql_);
}

void query::bind(int at, std::nullptr_t) {
  if (sqlite3_bind_null(statement_, at) != SQLITE_OK) owner_->fail(sql_);
}

database::database(const std::string& path, mode how)
    : path_(path) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
              (how == mode::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY);
  try {
    if (sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr) != SQLITE_OK) fail("opening it");
    sqlite3_busy_timeout(handle_, busy_timeout_ms);
    if (how == mode::write)
      script("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 10000;"
             "PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;");
    else script("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;");
  } catch (...) {
    close();
    throw;
  }
}

database::~database() { close(); }

void database::close() noexcept {
  for (auto& [sql, statements] : idle_)
    for (auto* statement : statements)
      sqlite3_finalize(statement);
  idle_.clear();
  sqlite3_close_v2(handle_);
  handle_ = nullptr;
}

void database::script(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql.substr(0, 80));
}

std::int64_t database::changes() const { return sqlite3_changes64(handle_); }
std::int64_t database::total_changes() const { return sqlite3_total_changes64(handle_); }
std::int64_t database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

query database::take(std::string_view sql) {
  auto& kept = idle_[sql.data()];
  if (!kept.empty()) {
    auto* statement = kept.back();
    kept.pop_back();
    return {*this, sql, statement};
  }
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK)
    fail(sql);
  return {*this, sql, statement};
}

void database::give_back(std::string_view sql, sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  idle_[sql.data()].push_back(statement);
}

void database::fail(std::string_view doing) const {
  std::string said = handle_ ? sqlite3_errmsg(handle_) : "out of memory";
  int code = handle_ ? sqlite3_extended_errcode(handle_) : SQLITE_NOMEM;
  std::string sentence = "The database " + path_ + " failed: " + said + " (SQLite code " + std::to_string(code) + ")";
  if ((code & 0xff) == SQLITE_FULL) sentence += "; free space on its disk";
  throw error(sentence + ", in: " + std::string(doing.substr(0, 120)));
}

transaction::transaction(database& db)
    : db_(db) {
  db_.run("BEGIN IMMEDIATE");
}

transaction::~transaction() {
  // After some errors (a full disk) SQLite has rolled back by itself, and a second ROLLBACK would be an error.
  if (open_ && !lost()) sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

bool transaction::lost() const { return sqlite3_get_autocommit(db_.handle()) != 0; }

void transaction::commit() {
  if (lost()) throw error("The database " + db_.path() + " gave up a transaction; nothing of it was written");
  db_.run("COMMIT");
  open_ = false;
}

savepoint::savepoint(database& db)
    : db_(db) {
  db_.run("SAVEPOINT asker");
}

savepoint::~savepoint() {
  if (open_ && !sqlite3_get_autocommit(db_.handle()))
    sqlite3_exec(db_.handle(), "ROLLBACK TO asker; RELEASE asker", nullptr, nullptr, nullptr);
}

void savepoint::release() {
  db_.run("RELEASE asker");
  open_ = false;
}

snapshot::snapshot(database& db)
    : db_(db) {
  db_.run("BEGIN");
}
snapshot::~snapshot() { sqlite3_exec(db_.handle(), "COMMIT", nullptr, nullptr, nullptr); }

} // namespace ranvier::storage
