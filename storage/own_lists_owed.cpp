#include "storage/own_list_page.hpp"
#include "storage/own_lists.hpp"

namespace ranvier::storage {

namespace {

/// Entries that are counted for one server at most: what is shown of a server needs no more.
constexpr std::int64_t counted_at_most = 10'000;

} // namespace

own_lists::waiting own_lists::count(std::string_view server, position after) {
  waiting out;
  auto id = db_.integer("SELECT id FROM server WHERE name = ?", server);
  if (!id) return out;
  auto row = db_.ask(
      "SELECT count(*), min(at_ms) FROM (SELECT e.at_ms FROM (SELECT DISTINCT m.user FROM span s "
      "INDEXED BY span_by_server CROSS JOIN member m INDEXED BY member_joined ON m.room = s.room AND m.server = 1 "
      "AND m.membership = 'join' WHERE s.server = ?1 AND s.until = 9223372036854775807) u CROSS JOIN device_entry e "
      "INDEXED BY device_entry_newest_of_user ON e.user = u.user AND e.newest = 1 AND e.position > ?2 AND e.kind <> 4 "
      "LIMIT ?3)",
      *id, after, counted_at_most);
  if (row.step()) out = {row.integer(0), row.integer(1)};
  return out;
}

/// A room is as new as the newest entry of ours who are in it; its servers are owed something if their cursors are
/// older. Share entries may turn out not to be owed, which costs a server an empty look.
std::vector<std::string> own_lists::owed_servers(std::string_view after, std::size_t limit) {
  std::vector<std::string> out;
  auto rows = db_.ask(
      "WITH news(room, latest) AS MATERIALIZED (SELECT m.room, max(u.latest) FROM local_user u "
      "INDEXED BY local_user_by_latest CROSS JOIN member m INDEXED BY member_ours ON m.user = u.user AND m.server = 1 "
      "AND m.membership = 'join' WHERE u.latest > (SELECT min(device_lists) FROM cursor) GROUP BY m.room "
      "UNION ALL SELECT room, max(position) FROM device_entry INDEXED BY device_entry_shares WHERE kind = 4 "
      "GROUP BY room) "
      "SELECT DISTINCT n.name FROM news CROSS JOIN span s ON s.room = news.room AND s.until = 9223372036854775807 "
      "CROSS JOIN cursor c ON c.server = s.server AND c.device_lists < news.latest CROSS JOIN server n "
      "ON n.id = s.server WHERE n.name > ?1 UNION SELECT n.name FROM list_extra x JOIN server n ON n.id = x.server "
      "WHERE n.name > ?1 ORDER BY 1 LIMIT ?2",
      after, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back(rows.text(0));
  return out;
}

} // namespace ranvier::storage
