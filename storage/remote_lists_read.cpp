// Questions about remote users' device lists.
#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "storage/remote_lists.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {

namespace dom = simdjson::dom;

/// A JSON object with one member set; std::map orders keys as canonical JSON does.
std::string with_member(dom::object object, std::string_view key, const std::string& value) {
  std::map<std::string, std::string> members;
  for (auto [name, member] : object)
    members[std::string(name)] = canonical_json(member, numbers::lenient);
  members[std::string(key)] = value;
  std::string out = "{";
  for (const auto& [name, text] : members) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':' + text;
  }
  return out += '}';
}

/// DeviceKeys with the name in `unsigned` (U14); nothing if it isn't an object.
std::optional<std::string> shown(const std::string& keys, const std::string& name) {
  try {
    json_document document(keys);
    dom::object object;
    if (document.root().get(object)) return {};
    if (name.empty()) return keys;
    dom::object inner;
    std::string text = json_string(name);
    if (object["unsigned"].get(inner)) text = "{\"device_display_name\":" + text + "}";
    else text = with_member(inner, "device_display_name", text);
    return with_member(object, "unsigned", text);
  } catch (const json_problem&) {
    return {};
  }
}

bool share(database& db, std::string_view ours, std::string_view other) {
  return db
      .integer("SELECT 1 FROM member o INDEXED BY member_ours WHERE o.user = ?1 AND o.server = 1 "
               "AND o.membership = 'join' AND EXISTS (SELECT 1 FROM member t WHERE t.room = o.room AND t.server = "
               "(SELECT id FROM server WHERE name = ?3) AND t.user = ?2 AND t.membership = 'join') LIMIT 1",
               ours, other, server_of(other))
      .has_value();
}

void add_names(dom::element item, const char* list, std::set<std::string>& to) {
  dom::array names;
  if (item[list].get(names)) return;
  for (auto one : names)
    if (std::string_view name; !one.get(name)) to.emplace(name);
}

} // namespace

known_keys_of_user remote_list_reader::keys(std::string_view user, const std::vector<std::string>& devices) {
  known_keys_of_user out;
  {
    auto row = db_.ask("SELECT held, stale, too_large, coalesce(master_key, ''), coalesce(self_signing_key, ''), cause "
                       "FROM remote_user WHERE user = ?",
                       user);
    if (!row.step()) {
      out.state = shares_a_room(db_, user) ? list_state::not_held : list_state::not_shared;
      return out;
    }
    bool held = row.integer(0) != 0, stale = row.integer(1) != 0;
    out.state = row.integer(2) != 0 ? list_state::too_large
                : !held             ? list_state::not_held
                : stale             ? list_state::stale
                                    : list_state::fresh;
    out.master_key = row.text(3);
    out.self_signing_key = row.text(4);
    if (stale) out.cause = row.text(5);
  }
  auto rows = db_.ask("SELECT device, keys, display_name FROM remote_device WHERE user = ? AND keys IS NOT NULL", user);
  while (rows.step()) {
    auto device = rows.text(0);
    if (!devices.empty() && std::find(devices.begin(), devices.end(), device) == devices.end()) continue;
    if (auto keys = shown(rows.text(1), rows.text(2))) out.devices.emplace(std::move(device), std::move(*keys));
  }
  return out;
}

stale_users remote_list_reader::stale(std::string_view server) {
  stale_users out;
  auto read = [&out](query rows) {
    while (rows.step()) {
      stale_user one;
      one.user = rows.text(0);
      one.server = rows.text(1);
      one.cause = rows.text(2);
      one.problem = rows.text(3);
      one.marks = rows.integer(4);
      one.since_ms = rows.integer(5);
      one.next_attempt_ms = rows.integer(6);
      one.failures = static_cast<int>(rows.integer(7));
      out.list.push_back(std::move(one));
    }
  };
  if (server.empty())
    read(db_.ask("SELECT u.user, s.name, u.cause, u.problem, u.marks, u.since_ms, u.next_attempt_ms, u.failures "
                 "FROM remote_user u INDEXED BY remote_user_stale CROSS JOIN server s ON s.id = u.server "
                 "WHERE u.stale = 1 ORDER BY u.user"));
  else
    read(db_.ask("SELECT u.user, s.name, u.cause, u.problem, u.marks, u.since_ms, u.next_attempt_ms, u.failures "
                 "FROM server s CROSS JOIN remote_user u INDEXED BY remote_user_stale ON u.server = s.id "
                 "WHERE s.name = ? AND u.stale = 1 ORDER BY u.user",
                 server));
  return out;
}

std::vector<std::string> remote_list_reader::servers_with_stale(std::string_view after, std::size_t limit) {
  std::vector<std::string> out;
  auto rows = db_.ask("SELECT name FROM server WHERE id IN (SELECT DISTINCT server FROM remote_user "
                      "INDEXED BY remote_user_stale WHERE stale = 1) AND name > ? ORDER BY name LIMIT ?",
                      after, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back(rows.text(0));
  return out;
}

namespace {

/// Items that are looked through for one answer; beyond that it is limited.
constexpr std::int64_t max_items = 50'000;
/// More names than this are looked up among all who share a room with the user, not one by one.
constexpr std::size_t many_names = 500;

std::set<std::string> all_who_share(database& db, std::string_view ours) {
  std::set<std::string> out;
  auto rows = db.ask("SELECT m.user FROM member o INDEXED BY member_ours CROSS JOIN member m "
                     "INDEXED BY member_joined ON m.room = o.room AND m.membership = 'join' "
                     "WHERE o.user = ?1 AND o.server = 1 AND o.membership = 'join'",
                     ours);
  while (rows.step())
    out.insert(rows.text(0));
  return out;
}

/// Adds the names of an item that concerns the user.
void read_item(std::string_view json, std::string_view user, std::string_view quoted, std::set<std::string>& changed,
               std::set<std::string>& left) {
  // Most items with a "for" are for others, and some have thousands of names: these aren't even parsed.
  if (json.find("\"for\":[") != std::string_view::npos && json.find(quoted) == std::string_view::npos) return;
  try {
    json_document item(json);
    dom::array concerned;
    if (!item.root()["for"].get(concerned)) {
      bool meant = false;
      for (auto one : concerned)
        if (std::string_view name; !one.get(name) && name == user) meant = true;
      if (!meant) return;
    }
    add_names(item.root(), "changed", changed);
    add_names(item.root(), "left", left);
  } catch (const json_problem&) {
    return; // a damaged row; the others still count
  }
}

} // namespace

device_changes remote_list_reader::changes(const find_device_changes& what, std::int64_t now_ms,
                                           std::int64_t horizon_ms) {
  device_changes out;
  auto gone = std::max(db_.integer("SELECT value FROM meta WHERE key = 'device_list_pruned'").value_or(0),
                       db_.integer("SELECT max(position) FROM device_list_item INDEXED BY device_list_item_by_age "
                                   "WHERE at_ms < ?",
                                   now_ms - horizon_ms)
                           .value_or(0));
  auto items = db_.integer("SELECT count(*) FROM (SELECT 1 FROM device_list_item WHERE position > ? AND position <= ? "
                           "LIMIT ?)",
                           what.from, what.to, max_items + 1);
  if (what.from < gone || items > max_items) {
    auto all = all_who_share(db_, what.user);
    out.limited = true;
    out.changed.assign(all.begin(), all.end());
    return out;
  }
  std::set<std::string> changed, left;
  auto quoted = json_string(what.user);
  auto rows = db_.ask("SELECT json FROM device_list_item WHERE position > ? AND position <= ?", what.from, what.to);
  while (rows.step())
    read_item(rows.view(0), what.user, quoted, changed, left);
  // What holds now decides: who came back is changed, who came and went has left.
  std::set<std::string> sharing;
  bool many = changed.size() + left.size() > many_names;
  if (many) sharing = all_who_share(db_, what.user);
  auto shares = [&](const std::string& user) { return many ? sharing.contains(user) : share(db_, what.user, user); };
  for (const auto& user : changed)
    if (shares(user)) out.changed.push_back(user);
  for (const auto& user : left)
    if (!shares(user)) out.left.push_back(user);
  return out;
}

} // namespace ranvier::storage
