#include "storage/list_announcements.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <map>

namespace ranvier::storage {

namespace {

/// Kept items dropped in one step.
constexpr int forget_at_once = 5'000;

/// Beyond so many questions to the store somebody who joins is announced to all of the room, which is allowed (F6).
constexpr std::int64_t dear = 20'000;

template <class Names> std::string list_of(const Names& names) {
  std::string out = "[";
  for (const auto& name : names) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
  }
  return out += ']';
}

std::set<std::string> texts(query rows) {
  std::set<std::string> out;
  while (rows.step())
    out.insert(rows.text(0));
  return out;
}

std::set<std::string> without(const std::set<std::string>& from, const std::set<std::string>& taken) {
  std::set<std::string> out;
  std::set_difference(from.begin(), from.end(), taken.begin(), taken.end(), std::inserter(out, out.end()));
  return out;
}

std::vector<std::string> list(const std::set<std::string>& from) { return {from.begin(), from.end()}; }

} // namespace

bool shares_a_room(database& db, std::string_view user) {
  return db
      .integer("SELECT 1 FROM member t INDEXED BY member_theirs WHERE t.user = ? AND t.server > 1 "
               "AND t.membership = 'join' AND EXISTS (SELECT 1 FROM member o INDEXED BY member_joined "
               "WHERE o.room = t.room AND o.server = 1 AND o.membership = 'join') "
               "AND NOT EXISTS (SELECT 1 FROM partial_join p WHERE p.room = t.room AND t.changed_at <= p.position) "
               "LIMIT 1",
               user)
      .has_value();
}

void list_announcements::append(const std::string& changed, const std::string& left, const std::string& concerned,
                                std::int64_t now_ms) {
  std::string json = "{\"changed\":" + changed;
  if (concerned != "[]") json += ",\"for\":" + concerned;
  json += ",\"left\":" + left + "}";
  auto at = inbox_.append("device_lists", json, now_ms);
  db_.run("INSERT INTO device_list_item(position, at_ms, json) VALUES(?, ?, ?)", at, now_ms, json);
}

void list_announcements::changed(const std::vector<std::string>& users, std::int64_t now_ms,
                                 const std::vector<std::string>& concerned) {
  if (!users.empty()) append(list_of(users), "[]", list_of(concerned), now_ms);
}

void list_announcements::left(const std::vector<std::string>& users, const std::vector<std::string>& concerned,
                              std::int64_t now_ms) {
  if (!users.empty() && !concerned.empty()) append("[]", list_of(users), list_of(concerned), now_ms);
}

list_announcements::names list_announcements::joined_in(row_id room) {
  return texts(
      db_.ask("SELECT user FROM member INDEXED BY member_joined WHERE room = ? AND membership = 'join'", room));
}

list_announcements::names list_announcements::ours_in(row_id room) {
  return texts(db_.ask("SELECT user FROM member INDEXED BY member_joined WHERE room = ? AND server = 1 "
                       "AND membership = 'join'",
                       room));
}

/// Users with whom one of ours shares another room; those that aren't in `room` may be missing. Goes through the other
/// rooms' members or through this room's, whichever are fewer.
list_announcements::names list_announcements::sharing_elsewhere(const std::string& ours, row_id room,
                                                                std::size_t candidates) {
  auto bound = static_cast<std::int64_t>(2 * candidates + 100);
  auto others = db_.integer("SELECT count(*) FROM (SELECT 1 FROM member o INDEXED BY member_ours CROSS JOIN member m "
                            "INDEXED BY member_joined ON m.room = o.room AND m.membership = 'join' "
                            "WHERE o.user = ?1 AND o.server = 1 AND o.membership = 'join' AND o.room <> ?2 LIMIT ?3)",
                            ours, room, bound)
                    .value_or(0);
  if (others < bound)
    return texts(db_.ask("SELECT m.user FROM member o INDEXED BY member_ours CROSS JOIN member m "
                         "INDEXED BY member_joined ON m.room = o.room AND m.membership = 'join' "
                         "WHERE o.user = ?1 AND o.server = 1 AND o.membership = 'join' AND o.room <> ?2",
                         ours, room));
  return texts(
      db_.ask("SELECT m.user FROM member m WHERE m.room = ?2 AND "
              "(m.server > 1 AND EXISTS (SELECT 1 FROM member t INDEXED BY member_theirs WHERE t.user = m.user "
              "AND t.server > 1 AND t.membership = 'join' AND t.room <> ?2 AND EXISTS (SELECT 1 FROM member o "
              "WHERE o.room = t.room AND o.server = 1 AND o.user = ?1 AND o.membership = 'join')) "
              "OR m.server = 1 AND EXISTS (SELECT 1 FROM member t INDEXED BY member_ours WHERE t.user = m.user "
              "AND t.server = 1 AND t.membership = 'join' AND t.room <> ?2 AND EXISTS (SELECT 1 FROM member o "
              "WHERE o.room = t.room AND o.server = 1 AND o.user = ?1 AND o.membership = 'join')))",
              ours, room));
}

/// Rooms of a user times our users of this room: how many questions `strangers_to` asks at most.
std::int64_t list_announcements::cost_of_strangers(const std::string& user, row_id room) {
  auto rooms = db_.integer("SELECT (SELECT count(*) FROM member INDEXED BY member_theirs WHERE user = ?1 "
                           "AND server > 1 AND membership = 'join') + (SELECT count(*) FROM member "
                           "INDEXED BY member_ours WHERE user = ?1 AND server = 1 AND membership = 'join')",
                           user);
  auto ours = db_.integer("SELECT count(*) FROM member INDEXED BY member_joined WHERE room = ? AND server = 1 "
                          "AND membership = 'join'",
                          room);
  return rooms.value_or(0) * ours.value_or(0);
}

/// Our joined users of the room who share no other room with `user`.
list_announcements::names list_announcements::strangers_to(const std::string& user, row_id room) {
  return texts(
      db_.ask("SELECT l.user FROM member l INDEXED BY member_joined WHERE l.room = ?2 AND l.server = 1 "
              "AND l.membership = 'join' AND l.user <> ?1 "
              "AND NOT EXISTS (SELECT 1 FROM member t INDEXED BY member_theirs WHERE t.user = ?1 AND t.server > 1 "
              "AND t.membership = 'join' AND t.room <> ?2 AND EXISTS (SELECT 1 FROM member o WHERE o.room = t.room "
              "AND o.server = 1 AND o.user = l.user AND o.membership = 'join')) "
              "AND NOT EXISTS (SELECT 1 FROM member t INDEXED BY member_ours WHERE t.user = ?1 AND t.server = 1 "
              "AND t.membership = 'join' AND t.room <> ?2 AND EXISTS (SELECT 1 FROM member o WHERE o.room = t.room "
              "AND o.server = 1 AND o.user = l.user AND o.membership = 'join'))",
              user, room));
}

/// Our users who came or went are told of everybody of the room with whom they share no other one.
void list_announcements::tell_movers(const roster_change& what, const names& movers, const names& others, bool came) {
  std::map<names, std::vector<std::string>> alike;
  for (const auto& user : movers) {
    auto told = without(others, sharing_elsewhere(user, what.room, others.size()));
    if (!came || movers.size() == 1) told.erase(user);
    if (!came && movers.size() > 1) {
      // What they lose of each other differs from one to the next; all else is mostly the same.
      auto rest = without(told, movers);
      left(list(without(told, rest)), {user}, what.at_ms);
      told = std::move(rest);
    }
    alike[std::move(told)].push_back(user);
  }
  for (const auto& [told, users] : alike) {
    if (came) changed(list(told), what.at_ms, users);
    else left(list(told), users, what.at_ms);
  }
}

/// Our users who stayed in the room are told of those who came or went.
void list_announcements::tell_stayers(const roster_change& what, const std::vector<std::string>& movers,
                                      const names& stayed, bool came) {
  if (stayed.empty()) return;
  std::map<names, std::vector<std::string>> alike;
  for (const auto& user : movers) {
    names concerned;
    if (came && cost_of_strangers(user, what.room) > dear) {
      concerned = stayed;
      concerned.erase(user);
    } else {
      for (const auto& ours : strangers_to(user, what.room))
        if (stayed.contains(ours)) concerned.insert(ours);
    }
    if (!concerned.empty()) alike[std::move(concerned)].push_back(user);
  }
  for (const auto& [concerned, users] : alike) {
    if (came) changed(users, what.at_ms, list(concerned));
    else left(users, list(concerned), what.at_ms);
  }
}

void list_announcements::roster_changed(const roster_change& what) {
  auto stayed = ours_in(what.room); // now, then without those who came
  auto ours = db_.text("SELECT name FROM server WHERE id = 1").value_or("");
  names came, went;
  for (const auto& user : what.joined)
    if (server_of(user) == ours) came.insert(user);
  for (const auto& user : what.parted)
    if (server_of(user) == ours) went.insert(user);
  if (stayed.empty() && went.empty()) return;
  stayed = without(stayed, came);
  if (!came.empty()) tell_movers(what, came, joined_in(what.room), true);
  tell_stayers(what, what.joined, stayed, true);
  if (!went.empty()) {
    auto before = without(joined_in(what.room), {what.joined.begin(), what.joined.end()});
    before.insert(what.parted.begin(), what.parted.end());
    tell_movers(what, went, before, false);
  }
  tell_stayers(what, what.parted, stayed, false);
}

void list_announcements::forget(std::int64_t before_ms) {
  auto last = db_.integer("SELECT max(position) FROM (SELECT position FROM device_list_item "
                          "INDEXED BY device_list_item_by_age WHERE at_ms < ? ORDER BY at_ms, position LIMIT ?)",
                          before_ms, forget_at_once);
  if (!last) return;
  db_.run("DELETE FROM device_list_item WHERE position IN (SELECT position FROM device_list_item "
          "INDEXED BY device_list_item_by_age WHERE at_ms < ? ORDER BY at_ms, position LIMIT ?)",
          before_ms, forget_at_once);
  db_.run("UPDATE meta SET value = max(value, ?) WHERE key = 'device_list_pruned'", *last);
}

} // namespace ranvier::storage
