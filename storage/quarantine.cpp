#include "storage/quarantine.hpp"

namespace ranvier::storage {

namespace {

#define RANVIER_QUARANTINE_ROW                                                                                         \
  "SELECT q.id, s.name, q.item, q.kind, q.since_ms, q.status, q.message FROM quarantine q "                            \
  "JOIN server s ON s.id = q.server "

quarantine_row read_row(const query& row) {
  return {row.integer(0), row.text(1),
          row.text(2),    static_cast<item_kind>(row.integer(3)),
          row.integer(4), static_cast<int>(row.integer(5)),
          row.text(6)};
}

} // namespace

std::int64_t quarantine::take(row_id server, const set_aside_item& what, std::int64_t now_ms) {
  const auto& item = what.item;
  if (item.row != 0) {
    db_.run("UPDATE quarantine SET since_ms = ?, status = ?, message = ?, retry = 0 WHERE id = ? AND server = ?",
            now_ms, what.status, what.message, item.row, server);
    return 0;
  }
  db_.run("INSERT INTO quarantine(server, kind, position, item, body, status, message, since_ms) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
          server, static_cast<int>(item.kind), item.pos, item.name, item.body.view(), what.status, what.message,
          now_ms);
  db_.run("DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine INDEXED BY quarantine_by_server "
          "WHERE server = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)",
          server, most_of_a_server);
  return db_.changes();
}

void quarantine::taken(row_id server, const std::vector<std::int64_t>& rows) {
  for (const auto row : rows)
    db_.run("DELETE FROM quarantine WHERE id = ? AND server = ?", row, server);
}

std::optional<quarantine_row> quarantine::find(std::int64_t row) {
  auto found = db_.ask(RANVIER_QUARANTINE_ROW "WHERE q.id = ? AND q.retry = 0", row);
  if (!found.step()) return {};
  return read_row(found);
}

std::optional<quarantine_row> quarantine::retry(std::int64_t row) {
  auto found = find(row);
  if (found) db_.run("UPDATE quarantine SET retry = 1 WHERE id = ?", row);
  return found;
}

std::optional<quarantine_row> quarantine::drop(std::int64_t row) {
  auto found = find(row);
  if (found) db_.run("DELETE FROM quarantine WHERE id = ?", row);
  return found;
}

std::vector<quarantine_row> quarantine::list() {
  std::vector<quarantine_row> out;
  auto rows = db_.ask(RANVIER_QUARANTINE_ROW "WHERE q.retry = 0 ORDER BY q.id");
  while (rows.step())
    out.push_back(read_row(rows));
  return out;
}

std::vector<retried_item> quarantine::retried(row_id server, std::size_t limit) {
  std::vector<retried_item> out;
  auto rows = db_.ask("SELECT id, kind, position, item, body FROM quarantine INDEXED BY quarantine_retried "
                      "WHERE server = ? AND retry = 1 ORDER BY id LIMIT ?",
                      server, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back(
        {rows.integer(0),
         {static_cast<item_kind>(rows.integer(1)), rows.integer(2), rows.text(3), rows.text(4), rows.integer(0)}});
  return out;
}

std::int64_t quarantine::count_retried(row_id server, item_kind kind) {
  return db_
      .integer(
          "SELECT count(*) FROM quarantine INDEXED BY quarantine_retried WHERE server = ? AND retry = 1 AND kind = ?",
          server, static_cast<int>(kind))
      .value_or(0);
}

bool quarantine::nothing_passed(row_id server, std::int64_t last_success_ms) {
  return db_
      .integer("SELECT 1 FROM quarantine INDEXED BY quarantine_by_server WHERE server = ? AND since_ms > ? LIMIT 1",
               server, last_success_ms)
      .has_value();
}

} // namespace ranvier::storage
