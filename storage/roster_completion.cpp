// What the end of a partial join does to a roster (DESIGN section 8, completion).
#include "storage/roster_store.hpp"

#include "messages/ids.hpp"

namespace ranvier::storage {

/// The state at the join under what was seen since. `moved`: servers that were in the room for a time since the join.
void roster_store::overlay(const completion& what, completed& out, std::set<row_id>& moved) {
  struct known_member {
    row_id server;
    std::string membership;
    position changed_at;
  };
  std::map<std::string, known_member> had;
  {
    auto rows = db_.ask("SELECT user, server, membership, changed_at FROM member WHERE room = ?", what.room);
    while (rows.step())
      had.emplace(rows.text(0), known_member{rows.integer(1), rows.text(2), rows.integer(3)});
  }
  auto truth = [&](const std::string& user) {
    const auto found = what.members.find(user);
    return found == what.members.end() ? std::string("leave") : found->second.membership;
  };
  for (const auto& [user, one] : had) {
    if (one.server == our_server) continue; // the host knows its own
    const auto before = truth(user);
    if (one.changed_at > what.joined_at) {
      if (one.membership == "join" || before == "join") moved.insert(one.server);
      // A join that was seen is one; but of somebody who was banned, or in the room already, only if something was
      // missed between the two: their server may not have told us what changed then (B98).
      if (one.membership == "join" && (before == "ban" || before == "join")) out.doubtful.push_back(user);
      continue;
    }
    if (one.membership == before) continue;
    write_member(what.room, one.server, user, before, what.joined_at, find_member(what.room, user), false);
    if (one.membership == "join") out.absent.push_back(user);
  }
  for (const auto& [user, member] : what.members) {
    if (had.contains(user) || member.membership == "leave") continue;
    const auto server = row_of_server(user);
    if (server == our_server) continue;
    write_member(what.room, server, user, member.membership, what.joined_at, {}, false);
  }
}

/// Its span begins where the join is owed from; what its cursor has passed of that is an extra.
void roster_store::serve_from(const completion& what, row_id server, bool stays, position at, std::int64_t now_ms,
                              completed& out) {
  const auto since = db_.integer("SELECT min(since) FROM span WHERE room = ? AND server = ? AND until >= ?", what.room,
                                 server, what.joined_at);
  if (since && *since <= what.joined_at) return; // served all the time
  if (since) {
    out.lacks.push_back({server, what.since - 1, *since - 1});
    db_.run("UPDATE span SET since = ?4 WHERE room = ?1 AND server = ?2 AND since = ?3", what.room, server, *since,
            what.since);
    return;
  }
  destinations_.ensure(server, what.since - 1, now_ms);
  out.lacks.push_back({server, what.since - 1, at});
  db_.run("INSERT OR REPLACE INTO span(room, server, since, until) VALUES(?, ?, ?, ?)", what.room, server, what.since,
          stays ? 9223372036854775807 : at);
}

roster_store::completed roster_store::complete(const completion& what, std::int64_t now_ms) {
  completed out;
  std::set<row_id> moved;
  overlay(what, out, moved);
  const auto at = log_.next();
  const auto now = joined_servers(what.room);
  const std::set<row_id> stay(now.begin(), now.end());
  moved.insert(stay.begin(), stay.end());
  for (const auto server : moved)
    if (server != our_server) serve_from(what, server, stay.contains(server), at, now_ms, out);
  settle(what.room, at, now_ms);
  servers_.erase(what.room);
  tell(what.room, {}, std::move(out.absent), now_ms);
  return out;
}

void roster_store::abandon(row_id room, std::int64_t now_ms) {
  const auto at = log_.next();
  std::vector<std::string> ours;
  {
    auto rows = db_.ask("SELECT user FROM member WHERE room = ? AND server = 1 AND membership = 'join'", room);
    while (rows.step())
      ours.push_back(rows.text(0));
  }
  for (const auto& user : ours)
    write_member(room, our_server, user, "leave", at, find_member(room, user), false);
  close_all(room, at);
  tell(room, {}, std::move(ours), now_ms);
}

} // namespace ranvier::storage
