#include "storage/name_table.hpp"

namespace ranvier::storage {

namespace {
/// Names that are kept in memory, of servers and of rooms each; about 10 MB.
constexpr std::size_t max_names = 100'000;
} // namespace

void name_table::remember(cache& where, std::string_view name, row_id id) {
  if (where.size() >= max_names) where.clear();
  where.emplace(name, id);
}

std::optional<row_id> name_table::known_server(std::string_view name) {
  if (auto found = servers_.find(std::string(name)); found != servers_.end()) return found->second;
  auto id = db_.integer("SELECT id FROM server WHERE name = ?", name);
  if (id) remember(servers_, name, *id);
  return id;
}

std::optional<row_id> name_table::known_room(std::string_view name) {
  if (auto found = rooms_.find(std::string(name)); found != rooms_.end()) return found->second;
  auto id = db_.integer("SELECT id FROM room WHERE name = ?", name);
  if (id) remember(rooms_, name, *id);
  return id;
}

row_id name_table::server(std::string_view name) {
  if (auto id = known_server(name)) return *id;
  db_.run("INSERT INTO server(name) VALUES(?)", name);
  remember(servers_, name, db_.last_row());
  return db_.last_row();
}

row_id name_table::room(std::string_view name) {
  if (auto id = known_room(name)) return *id;
  db_.run("INSERT INTO room(name) VALUES(?)", name);
  remember(rooms_, name, db_.last_row());
  return db_.last_row();
}

std::string name_table::server_name(row_id server) {
  return db_.text("SELECT name FROM server WHERE id = ?", server).value_or("");
}

void name_table::forget() {
  servers_.clear();
  rooms_.clear();
}

} // namespace ranvier::storage
