// What a join of ours over federation does to a roster, and what a partial join keeps open.
#include "storage/roster_store.hpp"

namespace ranvier::storage {

bool roster_store::has_ours(row_id room) { return has_joined(room, our_server); }

bool roster_store::is_partial(row_id room) {
  return db_.integer("SELECT 1 FROM partial_join WHERE room = ?", room).has_value();
}

/// What we believed of the room before we came is old, unless one of ours was there all the time.
std::map<std::string, std::string> roster_store::believed(const arrival& who, bool ours) {
  std::map<std::string, std::string> out;
  {
    auto rows = db_.ask("SELECT user, membership FROM member WHERE room = ?", who.room);
    while (rows.step())
      out.emplace(rows.text(0), rows.text(1));
  }
  if (ours || who.whole) return out;
  db_.run("DELETE FROM member WHERE room = ? AND server > 1", who.room);
  std::erase_if(out, [this](const auto& one) { return row_of_server(one.first) != our_server; });
  return out;
}

position roster_store::arrive(const arrival& who, std::int64_t now_ms) {
  begin_roster(who.room);
  const bool ours = has_joined(who.room, our_server);
  const auto had = believed(who, ours);
  const auto at = log_.next();
  std::vector<std::string> joined, parted;
  auto put = [&](const std::string& user, const std::string& membership) {
    const auto was = had.find(user);
    const std::string before = was == had.end() ? "" : was->second;
    if (before == membership || (before.empty() && membership == "leave")) return;
    write_member(who.room, row_of_server(user), user, membership, at, find_member(who.room, user), false);
    if (membership == "join") joined.push_back(user);
    else if (before == "join") parted.push_back(user);
  };
  const auto mine = had.find(who.user);
  log_.see("m|" + who.event_id, now_ms, at, mine == had.end() ? "" : mine->second);
  for (const auto& [user, membership] : who.members)
    if (user != who.user && !(ours && had.contains(user))) put(user, membership);
  if (who.whole && !ours)
    for (const auto& [user, membership] : had)
      if (user != who.user && !who.members.contains(user)) put(user, "leave");
  put(who.user, "join");
  if (!ours) settle(who.room, at, now_ms);
  else
    for (const auto& user : joined)
      if (const auto server = row_of_server(user); server != our_server) open_span(who.room, server, at, now_ms);
  for (const auto& name : who.servers)
    if (const auto server = names_.server(name); server != our_server) open_span(who.room, server, at, now_ms);
  tell(who.room, std::move(joined), std::move(parted), now_ms);
  return at;
}

} // namespace ranvier::storage
