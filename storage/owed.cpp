#include "storage/owed.hpp"

#include "storage/extra_store.hpp"
#include "storage/owed_stretches.hpp"
#include "storage/quarantine.hpp"

#include <algorithm>
#include <queue>
#include <set>

namespace ranvier::storage {

namespace {

std::optional<row_id> find_server(database& db, std::string_view name) {
  return db.integer("SELECT id FROM server WHERE name = ?", name);
}

std::size_t read_to_device(database& db, row_id server, position after, position upto, const owed_limits& limits,
                           owed_page& page) {
  std::size_t bytes = 0;
  page.to_device_through = upto;
  auto rows = db.ask("SELECT position, message_id, at_ms, body FROM to_device INDEXED BY to_device_by_server "
                     "WHERE server = ? AND position > ? AND position <= ? ORDER BY position",
                     server, after, upto);
  while (rows.step()) {
    bool full = page.to_device.size() >= limits.max_to_device ||
                (!page.to_device.empty() && bytes + rows.view(3).size() > limits.max_bytes);
    if (full) {
      page.more_to_device = true;
      page.to_device_through = page.to_device.empty() ? after : page.to_device.back().pos;
      break;
    }
    bytes += rows.view(3).size();
    page.to_device.push_back(
        {entry_kind::to_device, rows.integer(0), "", rows.text(1), "", rows.text(3), rows.integer(2), nullptr});
  }
  return bytes;
}

log_entry read_event(database& db, position pos) {
  auto row = db.ask(
      "SELECT room.name, event_id, body, at_ms FROM pdu JOIN room ON room.id = pdu.room WHERE position = ?", pos);
  if (!row.step()) throw error("The database " + db.path() + " has lost the event at position " + std::to_string(pos));
  return {entry_kind::pdu, pos, row.text(0), row.text(1), "", row.text(2), row.integer(3), nullptr};
}

/// Gives the bytes of what was read.
std::size_t read_extras(database& db, row_id server, const owed_limits& limits, std::size_t bytes, owed_page& page) {
  if (limits.max_extras == 0) return bytes;
  for (const auto& one : extra_store(db).next(server, limits.extras_after, limits.max_extras + 1)) {
    auto event = read_event(db, one.pos);
    page.more_extras = page.extras.size() >= limits.max_extras ||
                       (!page.extras.empty() && bytes + event.body.size() > limits.max_bytes);
    if (page.more_extras) break;
    bytes += event.body.size();
    page.extras.push_back(std::move(event));
  }
  return bytes;
}

/// The rooms are merged by position: a queue of each one's next event. What rule K lets go of a room is stepped over
/// when its turn comes.
void read_pdus(database& db, row_id server, owed_stretches& owed, position after, position upto,
               const owed_limits& limits, std::size_t bytes, owed_page& page) {
  using head = std::pair<position, std::size_t>;
  std::priority_queue<head, std::vector<head>, std::greater<>> heads;
  auto advance = [&](std::size_t which, position beyond) {
    auto pos = owed.next(which, beyond);
    if (pos != 0 && pos <= upto) heads.emplace(pos, which);
  };
  for (std::size_t i = 0; i < owed.size(); ++i)
    advance(i, after);
  while (!heads.empty()) {
    auto [pos, which] = heads.top();
    if (auto first = owed.first_kept(which); pos < first) {
      heads.pop();
      advance(which, first - 1);
      continue;
    }
    page.more_pdus = page.more_extras || page.pdus.size() >= limits.max_pdus;
    if (page.more_pdus) break;
    auto event = read_event(db, pos);
    page.more_pdus = page.pdus.size() + page.extras.size() > 0 && bytes + event.body.size() > limits.max_bytes;
    if (page.more_pdus) break;
    heads.pop();
    bytes += event.body.size();
    page.pdus.push_back(std::move(event));
    advance(which, pos);
  }
  page.pdus_through = !page.more_pdus ? upto : page.pdus.empty() ? after : page.pdus.back().pos;
  page.let_go_at = owed.let_go(page.pdus_through);
  page.let_go = static_cast<std::int64_t>(page.let_go_at.size());
  std::set<row_id> behind;
  for (; !heads.empty(); heads.pop())
    behind.insert(owed.room(heads.top().second));
  if (page.more_extras)
    for (auto room : extra_store(db).rooms(server, page.extras.back().pos))
      behind.insert(room);
  for (auto room : behind)
    page.rooms_behind.push_back(db.text("SELECT name FROM room WHERE id = ?", room).value_or(""));
}

/// A destination is owed an event of a room if the room has one above its cursor within a span of it. Rooms whose
/// newest event lies below all cursors are never looked at, nor those of which compaction has left nothing above them,
/// and a server's row only for a room that has something new.
constexpr std::string_view list_sql =
    "SELECT name FROM server WHERE name > ?1 AND id IN ("
    "SELECT s.server FROM room r INDEXED BY room_by_latest CROSS JOIN span s ON s.room = r.id "
    "CROSS JOIN cursor c ON c.server = s.server WHERE r.latest > (SELECT min(pdu) FROM cursor) AND EXISTS ("
    "SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = r.id AND position > (SELECT min(pdu) FROM "
    "cursor)) AND r.latest > c.pdu "
    "AND s.until > c.pdu AND EXISTS ("
    "SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = r.id AND position > max(c.pdu, s.since - "
    "1) "
    "AND position <= s.until AND (exclude IS NULL OR "
    "instr(exclude, char(10) || (SELECT name FROM server n WHERE n.id = s.server) || char(10)) = 0)) "
    "UNION SELECT server FROM to_device UNION SELECT server FROM target UNION SELECT server FROM extra "
    "UNION SELECT server FROM quarantine INDEXED BY quarantine_retried WHERE retry = 1) ORDER BY name LIMIT ?2";

} // namespace

owed_page owed_reader::page(std::string_view server, const cursors& after, position upto, const owed_limits& limits) {
  owed_page page;
  page.pdus_through = page.to_device_through = upto;
  auto id = find_server(db_, server);
  if (!id) return page;
  auto bytes = read_to_device(db_, *id, after.to_device, upto, limits, page);
  if (limits.max_extras > 0) page.retried = quarantine(db_).retried(*id, limits.max_extras);
  bytes = read_extras(db_, *id, limits, bytes, page);
  owed_stretches owed(db_, *id, server, after.pdu, newest_kept_);
  read_pdus(db_, *id, owed, after.pdu, upto, limits, bytes, page);
  return page;
}

owed_totals owed_reader::count(std::string_view server, const cursors& after) {
  owed_totals totals;
  auto id = find_server(db_, server);
  if (!id) return totals;
  auto oldest = [&](std::int64_t at_ms) {
    if (at_ms > 0 && (totals.oldest_at_ms == 0 || at_ms < totals.oldest_at_ms)) totals.oldest_at_ms = at_ms;
  };
  owed_stretches owed(db_, *id, server, after.pdu, newest_kept_);
  position first = 0;
  for (std::size_t i = 0; i < owed.size(); ++i) {
    totals.pdus += owed.kept(i);
    auto pos = owed.next(i, std::max(after.pdu, owed.first_kept(i) - 1));
    if (pos != 0 && (first == 0 || pos < first)) first = pos;
  }
  if (auto extras = extra_store(db_).next(*id, 0, 1); !extras.empty()) {
    totals.pdus += extra_store(db_).count(*id);
    first = extras[0].pos;
  }
  totals.pdus += quarantine(db_).count_retried(*id, item_kind::pdu);
  if (first != 0) oldest(db_.integer("SELECT at_ms FROM pdu WHERE position = ?", first).value_or(0));
  totals.to_device =
      db_.integer("SELECT count(*) FROM to_device WHERE server = ? AND position > ?", *id, after.to_device).value_or(0);
  totals.to_device += quarantine(db_).count_retried(*id, item_kind::to_device);
  oldest(db_.integer("SELECT at_ms FROM to_device WHERE server = ? AND position > ? ORDER BY position LIMIT 1", *id,
                     after.to_device)
             .value_or(0));
  return totals;
}

std::vector<std::string> owed_reader::list(std::string_view after, std::size_t limit) {
  std::vector<std::string> out;
  auto rows = db_.ask(list_sql, after, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back(rows.text(0));
  return out;
}

} // namespace ranvier::storage
