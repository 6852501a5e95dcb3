// Servers that the configuration denies: what they are owed keeps no rows (docs/LOG.md).
#include "storage/destination_store.hpp"
#include "storage/extra_store.hpp"

namespace ranvier::storage {

namespace {

constexpr std::string_view allow_key = "allowed_servers", deny_key = "denied_servers";

/// Globs hold no line ends.
std::string lines_of(const std::vector<std::string>& globs) {
  std::string out;
  for (const auto& glob : globs)
    out.append(glob).append("\n");
  return out;
}

std::vector<std::string> globs_of(std::string_view lines) {
  std::vector<std::string> out;
  for (auto end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
    out.emplace_back(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  return out;
}

std::vector<std::string> stored(database& db, std::string_view key) {
  return globs_of(db.text("SELECT value FROM meta WHERE key = ?", key).value_or(""));
}

void store(database& db, std::string_view key, const std::vector<std::string>& globs) {
  db.run("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", key,
         lines_of(globs));
}

} // namespace

bool destination_store::set_allowed(allowed_servers lists, position head) {
  const allowed_servers before{stored(db_, allow_key), stored(db_, deny_key)};
  allowed_ = std::move(lists);
  if (before == allowed_) return false;
  std::vector<row_id> denied, allowed;
  {
    auto rows = db_.ask("SELECT s.id, s.name FROM destination d JOIN server s ON s.id = d.server");
    while (rows.step()) {
      const auto name = rows.text(1);
      const bool is = allowed_.denied(name);
      if (is != before.denied(name)) (is ? denied : allowed).push_back(rows.integer(0));
    }
  }
  for (auto server : denied)
    shut_out(server);
  for (auto server : allowed)
    let_in(server, head);
  store(db_, allow_key, allowed_.allow);
  store(db_, deny_key, allowed_.deny);
  return true;
}

bool destination_store::is_denied(row_id server) {
  return allowed_.any() && allowed_.denied(db_.text("SELECT name FROM server WHERE id = ?", server).value_or(""));
}

/// A closing from its cursor on: rule K then holds for all that it is owed. What rule K doesn't touch goes at once.
void destination_store::shut_out(row_id server) {
  const auto cursor = db_.integer("SELECT pdu FROM cursor WHERE server = ?", server).value_or(0);
  db_.run("DELETE FROM closed WHERE server = ?", server);
  open_interval(server, cursor);
  // Of events that name it, those that a span of it covers too are still owed by that.
  const auto went = db_.integer("SELECT count(*) FROM target t WHERE t.server = ? AND (EXISTS (SELECT 1 FROM pdu p "
                          "WHERE p.position = t.position AND p.explicit = 1) OR NOT EXISTS (SELECT 1 FROM span s "
                          "WHERE s.room = t.room AND s.server = t.server AND s.since <= t.position "
                          "AND s.until >= t.position))",
                          server)
                  .value_or(0);
  db_.run("DELETE FROM target WHERE server = ?", server);
  if (went > 0) count_let_go(server, went);
  let_go_extras(server);
  moved_ = true;
}

void destination_store::let_go_extras(row_id server) {
  if (const auto events = extra_store(db_).count(server); events > 0) count_let_go(server, events);
  db_.run("DELETE FROM extra WHERE server = ?", server);
}

void destination_store::let_in(row_id server, position head) {
  if (!gate(server).push.closed) close_interval(server, head);
}

} // namespace ranvier::storage
