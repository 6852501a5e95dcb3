// How a partial join ends in the store: completed or abandoned (DESIGN section 8).
#include "storage/extra_store.hpp"
#include "storage/kept_updates.hpp"
#include "storage/partial_joins.hpp"

#include "messages/canonical_json.hpp"

#include <set>

namespace ranvier::storage {

namespace {

constexpr std::int64_t in_state = 1, in_auth_chain = 2;

std::string list_of(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const auto& name : names)
    out += (out.size() > 1 ? "," : "") + json_string(name);
  return out + "]";
}

std::shared_ptr<const std::vector<std::string>> shared(std::vector<std::string> names) {
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

/// Changes of our users' lists in (from, to]. What an earlier end left owed of the room stays owed.
void owe_lists(database& db, row_id server, row_id room, position from, position to) {
  db.run("INSERT INTO list_extra(server, room, from_position, to_position) VALUES(?, ?, ?, ?) "
         "ON CONFLICT(server, room) DO UPDATE SET from_position = min(from_position, excluded.from_position), "
         "to_position = max(to_position, excluded.to_position)",
         server, room, from, to);
}

} // namespace

/// Their events and changes of lists, one row each. The names of those who lack something.
std::vector<std::string> partial_join_store::lacking(row_id room,
                                                     const std::vector<roster_store::completed::lack>& lacks) {
  extra_store extras(db_);
  std::vector<std::string> names;
  for (const auto& one : lacks) {
    if (one.from >= one.to) continue;
    extras.add(one.server, room, one.from, one.to);
    roster_.let_go_if_denied(one.server);
    owe_lists(db_, one.server, room, one.from, one.to);
    names.push_back(names_.server_name(one.server));
  }
  return names;
}

/// The whole state, for GET /rooms/{id}/state; events that came earlier are stored already.
void partial_join_store::keep_state(row_id room, const complete_join& what, std::int64_t now_ms) {
  db_.run("UPDATE join_event SET part = 0 WHERE room = ?", room);
  for (const auto& one : what.events) {
    const auto part = (one.in_state ? in_state : 0) | (one.in_auth_chain ? in_auth_chain : 0);
    if (one.event.view().empty())
      db_.run("UPDATE join_event SET part = ?3 WHERE room = ?1 AND event_id = ?2", room, one.event_id, part);
    else
      db_.run("INSERT INTO join_event(room, event_id, part, event) VALUES(?, ?, ?, ?) "
              "ON CONFLICT(room, event_id) DO UPDATE SET part = excluded.part",
              room, one.event_id, part, one.event.view());
  }
  db_.run("DELETE FROM join_event WHERE room = ? AND part = 0", room);
  db_.run("INSERT OR REPLACE INTO join_state(room, event_id, at_ms) SELECT room, event_id, ?2 FROM partial_join "
          "WHERE room = ?1",
          room, now_ms);
}

/// Exactly those whose updates were kept are announced; nothing is fetched for it (W4, W11).
void partial_join_store::settle_kept(std::int64_t now_ms) {
  const auto placed = kept_updates(db_).settle();
  if (!placed.empty()) announcements_.changed(placed, now_ms);
}

void partial_join_store::tell_end(inbox_store& inbox, const partial_join_row& row, const end_said& said,
                                  std::int64_t now_ms) {
  std::string list;
  for (const auto& [name, how] : said.servers)
    if (!how.verdict.empty()) // who was never asked has none
      list += (list.empty() ? "" : ",") + json_string(name) + R"(:{"verdict":)" + json_string(how.verdict) +
              R"(,"reason":)" + json_string(how.reason) + "}";
  inbox.append("partial_join",
               R"({"room_id":)" + json_string(row.room_id) + R"(,"state":)" + json_string(said.state) +
                   R"(,"reason":)" + json_string(said.reason) + R"(,"users":)" + list_of(row.users) +
                   R"(,"servers":{)" + list + "}}",
               now_ms);
}

/// A server that was served all the time may have changes of lists before it that no shared room will owe it any more.
std::vector<std::string> partial_join_store::hand_over_lists(row_id room, const partial_join_row& row) {
  std::set<std::string> there(row.servers.begin(), row.servers.end());
  for (const auto& name : *roster_.servers_of(room))
    there.insert(name);
  const auto at = log_.head();
  std::vector<std::string> names;
  for (const auto& name : there) {
    const auto server = names_.server(name);
    const auto had = db_.integer("SELECT device_lists FROM cursor WHERE server = ?", server).value_or(0);
    const auto from = std::max(row.since - 1, had);
    const bool any = db_.integer("SELECT 1 FROM device_entry e WHERE e.position > ?2 AND e.position <= ?3 "
                                 "AND e.newest = 1 AND e.kind <> 4 AND EXISTS (SELECT 1 FROM member m WHERE "
                                 "m.room = ?1 AND m.server = 1 AND m.user = e.user) LIMIT 1",
                                 room, from, at)
                         .has_value();
    if (!any) continue;
    owe_lists(db_, server, room, from, at);
    names.push_back(name);
  }
  return names;
}

void partial_join_store::drop_rows(row_id room) {
  db_.run("DELETE FROM partial_join WHERE room = ?", room);
  db_.run("DELETE FROM join_event WHERE room = ?", room);
  db_.run("DELETE FROM join_state WHERE room = ?", room);
}

void partial_join_store::ours_changed(std::string_view room_id, std::int64_t now_ms, std::vector<log_entry>& entries) {
  const auto room = names_.known_room(room_id);
  if (!room || !generation_of(*room) || roster_.has_ours(*room)) return;
  const auto rows = list_partial_joins(db_, room_id);
  auto affected = hand_over_lists(*room, rows.front());
  drop_rows(*room);
  settle_kept(now_ms);
  entries.push_back(
      {entry_kind::partial_join, log_.head(), std::string(room_id), "", "", {}, now_ms, shared(std::move(affected))});
}

void partial_join_store::forget(std::string_view room_id, bool now, std::int64_t now_ms,
                                std::vector<log_entry>& entries) {
  const auto room = names_.known_room(room_id);
  if (!room) return;
  const bool partial = generation_of(*room).has_value();
  std::vector<std::string> affected;
  if (partial && !now) affected = hand_over_lists(*room, list_partial_joins(db_, room_id).front());
  drop_rows(*room);
  if (!partial) return;
  settle_kept(now_ms);
  entries.push_back(
      {entry_kind::partial_join, log_.head(), std::string(room_id), "", "", {}, now_ms, shared(std::move(affected))});
}

/// Nothing if that generation has ended.
std::optional<partial_join_row> partial_join_store::row_of(std::string_view room_id, std::int64_t generation) {
  const auto room = names_.known_room(room_id);
  if (!room || generation_of(*room) != generation) return {};
  return list_partial_joins(db_, room_id).front();
}

/// What every end has: kept updates are settled, the host and the room's actor hear of it. The row is gone.
partial_join_ended partial_join_store::ended(const partial_join_row& row, end_said said, inbox_store& inbox,
                                             std::int64_t now_ms, std::vector<log_entry>& entries) {
  settle_kept(now_ms);
  tell_end(inbox, row, said, now_ms);
  partial_join_ended out;
  out.current = true;
  out.affected = std::move(said.affected);
  entries.push_back({entry_kind::partial_join, log_.head(), row.room_id, "", "", {}, now_ms, shared(out.affected)});
  return out;
}

partial_join_ended partial_join_store::complete(const complete_join& what, inbox_store& inbox, std::int64_t now_ms,
                                                std::vector<log_entry>& entries) {
  const auto row = row_of(what.room_id, what.generation);
  if (!row) return {};
  const auto room = names_.room(what.room_id);
  keep_state(room, what, now_ms);
  db_.run("DELETE FROM partial_join WHERE room = ?", room);
  if (!what.acl.empty())
    db_.run("INSERT INTO room_acl(room, content) VALUES(?, ?) ON CONFLICT(room) DO NOTHING", room, what.acl);
  const auto done = roster_.complete({room, row->at, row->since, what.members}, now_ms);
  auto affected = lacking(room, done.lacks);
  if (doubt_) doubt_(done.doubtful, now_ms);
  return ended(*row, {"complete", what.reason, what.servers, std::move(affected)}, inbox, now_ms, entries);
}

/// Servers that may be in the room are owed what our users changed meanwhile (P13); the host makes the users leave.
partial_join_ended partial_join_store::end(const end_partial_join& what, inbox_store& inbox, std::int64_t now_ms,
                                           std::vector<log_entry>& entries) {
  const auto row = row_of(what.room_id, what.generation);
  if (!row) return {};
  const auto room = names_.room(what.room_id);
  auto affected = hand_over_lists(room, *row);
  drop_rows(room);
  roster_.abandon(room, now_ms);
  return ended(*row, {"abandoned", what.reason, what.servers, std::move(affected)}, inbox, now_ms, entries);
}

} // namespace ranvier::storage
