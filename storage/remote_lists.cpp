#include "storage/remote_lists.hpp"

#include "messages/ids.hpp"
#include "storage/kept_updates.hpp"

#include <algorithm>
#include <sqlite3.h>
#include <utility>

namespace ranvier::storage {

namespace {

constexpr std::int64_t hour_ms = 3'600'000, day_ms = 24 * hour_ms;
/// Applied updates that are remembered: of so many users, so many each.
constexpr std::size_t max_remembered_users = 10'000, max_remembered_ids = 16;

std::optional<std::string> or_null(const std::string& text) {
  if (text.empty()) return {};
  return text;
}

/// The cross-signing key (canonical JSON, or empty) is the public key that the device is named by.
bool is_key_of(const std::string& key, const std::string& device) {
  return key.find("\"ed25519:" + device + "\":") != std::string::npos;
}

/// Empty for what concerns no single device.
std::string device_of(const inbound_device_change& change) {
  const auto* update = std::get_if<device_list_edu>(&change);
  return update ? update->device : std::string();
}

const std::string& user_of(const inbound_device_change& change) {
  return std::visit([](const auto& one) -> const std::string& { return one.user; }, change);
}

} // namespace

/// One transaction's changes: who of its users shares a room, which stream ids it applied, who is to be fetched.
struct remote_list_writer::batch {
  std::int64_t now_ms = 0;
  std::map<std::string, bool> shares;
  std::map<std::string, std::set<std::int64_t>> applied;
  std::map<std::string, std::int64_t> to_fetch; ///< user -> marks
};

std::optional<remote_list_writer::row> remote_list_writer::find(std::string_view user) {
  auto found = db_.ask("SELECT server, held, too_large, stale, told, stream_id, marks, next_attempt_ms, mentioned_ms, "
                       "master_key, self_signing_key, mentioned, cause FROM remote_user WHERE user = ?",
                       user);
  if (!found.step()) return {};
  row out;
  out.user = user;
  out.server = found.integer(0);
  out.held = found.integer(1) != 0;
  out.too_large = found.integer(2) != 0;
  out.stale = found.integer(3) != 0;
  out.told = found.integer(4) != 0;
  out.stream_id = found.integer(5);
  out.marks = found.integer(6);
  out.next_attempt_ms = found.integer(7);
  out.mentioned_ms = found.integer(8);
  out.master_key = found.text(9);
  out.self_signing_key = found.text(10);
  out.mentioned = found.text(11);
  out.cause = found.text(12);
  return out;
}

std::int64_t remote_list_writer::next_mark() {
  db_.run("UPDATE meta SET value = value + 1 WHERE key = 'list_marks'");
  return db_.integer("SELECT value FROM meta WHERE key = 'list_marks'").value_or(0);
}

/// The first cause stays while the mark stands. Of news clients are to hear if it can't be fetched; of a doubt of our
/// own they aren't, or they would ask, and by that raise the next one (B76).
std::int64_t remote_list_writer::mark_one(const std::string& user, std::string_view cause, mark_kind kind,
                                          std::int64_t now_ms) {
  auto marks = next_mark();
  bool doubt = kind == mark_kind::doubt;
  db_.run(
      "INSERT INTO remote_user(user, server, stale, marks, cause, since_ms, told) VALUES(?1, ?2, 1, ?3, ?4, ?5, ?6) "
      "ON CONFLICT(user) DO UPDATE SET marks = ?3, told = iif(?6, told OR NOT stale, 0), "
      "cause = iif(stale, cause, ?4), since_ms = iif(stale, since_ms, ?5), stale = 1",
      user, names_.server(server_of(user)), marks, cause, now_ms, doubt);
  return marks;
}

log_entry remote_list_writer::entry_of(const std::string& user, std::int64_t marks, std::int64_t now_ms) const {
  log_entry out;
  out.kind = entry_kind::stale;
  out.subject = user;
  out.at_ms = now_ms;
  out.servers = std::make_shared<const std::vector<std::string>>(1, std::string(server_of(user)));
  out.marks = marks;
  return out;
}

void remote_list_writer::take(std::string_view origin, const std::vector<inbound_device_change>& changes,
                              std::int64_t now_ms, std::vector<log_entry>& entries) {
  batch all;
  all.now_ms = now_ms;
  for (const auto& change : changes) {
    const auto& user = user_of(change);
    if (server_of(user) != origin) continue;
    auto [shares, fresh] = all.shares.try_emplace(user, false);
    if (fresh) shares->second = shares_a_room(db_, user);
    if (!shares->second) { // L13, but perhaps they are in a room that is joined partially (P11)
      if (kept_updates kept(db_); kept.any_partial()) kept.keep(user, device_of(change), now_ms);
      continue;
    }
    auto inbox_mark = inbox_.now();
    try {
      savepoint mine(db_);
      std::visit([&](const auto& one) { take_one(all, one); }, change);
      mine.release();
    } catch (const error&) {
      if (sqlite3_get_autocommit(db_.handle()) != 0) throw; // not even the transaction stands any more
      inbox_.rewind(inbox_mark);
      names_.forget();
      ++failures_;
      all.applied.erase(user);
      savepoint mine(db_);
      all.to_fetch[user] = mark_one(user, "an update of it couldn't be stored", mark_kind::news, now_ms);
      mine.release();
    }
  }
  for (const auto& [user, marks] : all.to_fetch)
    entries.push_back(entry_of(user, marks, now_ms));
}

/// Something is known to be missing: the list is to be fetched. One that is too large is asked for once a day only, so
/// clients are told that it is another one now.
void remote_list_writer::unsure(batch& of, const std::string& user, std::string_view cause, mark_kind kind) {
  auto was = find(user);
  auto marks = mark_one(user, cause, kind, of.now_ms);
  of.applied.erase(user);
  applied_.erase(user);
  if (was && was->too_large) {
    announcements_.changed({user}, of.now_ms);
    if (of.now_ms < was->next_attempt_ms) return;
  }
  of.to_fetch[user] = marks;
}

void remote_list_writer::take_one(batch& of, const device_list_edu& edu) {
  auto was = find(edu.user);
  if (!was || !was->held) return unsure(of, edu.user, "an update came of a list that isn't held");
  if (was->stale) return unsure(of, edu.user, was->cause);
  if (edu.stream_id <= was->stream_id && is_remembered(edu.user, edu.stream_id) && is_held_so(edu)) return; // again
  if (edu.stream_id <= was->stream_id)
    return unsure(of, edu.user, "an update has a stream_id that isn't above the last one"); // B70
  if (edu.prev_ids.empty()) return unsure(of, edu.user, "an update names no prev_id though a list is held");
  const auto& applied = of.applied[edu.user];
  for (auto id : edu.prev_ids)
    if (id != was->stream_id && !applied.contains(id))
      return unsure(of, edu.user, "an update names a prev_id that isn't known"); // L9
  apply(of, *was, edu);
}

/// The device is held just as the update says.
bool remote_list_writer::is_held_so(const device_list_edu& edu) {
  auto found =
      db_.ask("SELECT keys, display_name FROM remote_device WHERE user = ? AND device = ?", edu.user, edu.device);
  bool there = found.step();
  if (edu.deleted) return !there;
  return there && found.text(0) == edu.keys && found.text(1) == edu.display_name;
}

void remote_list_writer::apply(batch& of, const row& user, const device_list_edu& edu) {
  bool differs = false;
  if (edu.deleted) differs = drop_device(edu.user, edu.device);
  else if (!is_key_of(user.master_key, edu.device) && !is_key_of(user.self_signing_key, edu.device)) // L16
    differs = store_device(edu.user, {edu.device, edu.keys, edu.display_name});
  remember(edu.user, edu.stream_id);
  of.applied[edu.user].insert({user.stream_id, edu.stream_id});
  db_.run("UPDATE remote_user SET stream_id = ?2, marks = ?3 WHERE user = ?1", edu.user, edu.stream_id, next_mark());
  auto devices = db_.integer("SELECT count(*) FROM remote_device WHERE user = ?", edu.user).value_or(0);
  if (devices > devices_per_user_) give_up_list(edu.user, of.now_ms + day_ms, of.now_ms);
  if (differs) announcements_.changed({edu.user}, of.now_ms);
}

bool remote_list_writer::store_device(const std::string& user, const remote_device& device) {
  db_.run("INSERT INTO remote_device(user, device, keys, display_name) VALUES(?1, ?2, ?3, ?4) "
          "ON CONFLICT(user, device) DO UPDATE SET keys = ?3, display_name = ?4 "
          "WHERE keys IS NOT ?3 OR display_name IS NOT ?4",
          user, device.device, or_null(device.keys), or_null(device.display_name));
  return db_.changes() > 0;
}

bool remote_list_writer::drop_device(const std::string& user, const std::string& device) {
  db_.run("DELETE FROM remote_device WHERE user = ? AND device = ?", user, device);
  return db_.changes() > 0;
}

void remote_list_writer::take_one(batch& of, const signing_key_edu& edu) {
  auto was = find(edu.user);
  if (!was || !was->held) return unsure(of, edu.user, "new signing keys came of a list that isn't held");
  db_.run("UPDATE remote_user SET master_key = coalesce(?2, master_key), "
          "self_signing_key = coalesce(?3, self_signing_key), marks = ?4 WHERE user = ?1 AND "
          "(coalesce(?2, master_key) IS NOT master_key OR coalesce(?3, self_signing_key) IS NOT self_signing_key)",
          edu.user, or_null(edu.master_key), or_null(edu.self_signing_key), next_mark());
  if (db_.changes() == 0) return;
  announcements_.changed({edu.user}, of.now_ms);
  // A fetch that runs may have begun before these keys.
  if (was->stale) unsure(of, edu.user, was->cause);
}

/// B74: a device that isn't in the list means that the list is wrong, or that somebody makes it up: once an hour, until
/// a fetch has found it.
void remote_list_writer::take_one(batch& of, const device_mention& mention) {
  auto was = find(mention.user);
  if (!was || !was->held || was->stale) return;
  if (db_.integer("SELECT 1 FROM remote_device WHERE user = ? AND device = ?", mention.user, mention.device)) return;
  if (was->mentioned_ms != 0 && of.now_ms < was->mentioned_ms + hour_ms && of.now_ms >= was->mentioned_ms) return;
  unsure(of, mention.user, "a message named an unknown device", mark_kind::doubt);
  db_.run("UPDATE remote_user SET mentioned = ?2, mentioned_ms = ?3 WHERE user = ?1", mention.user, mention.device,
          of.now_ms);
}

void remote_list_writer::take_one(batch& of, const unusable_update& update) { unsure(of, update.user, update.why); }

void remote_list_writer::mark(const mark_stale& what, std::int64_t now_ms, std::vector<log_entry>& entries) {
  for (const auto& user : what.users) {
    auto server = server_of(user);
    if (server.empty() || names_.known_server(server) == our_server) continue;
    if (!find(user) && !shares_a_room(db_, user)) continue;
    entries.push_back(entry_of(user, mark_one(user, what.cause, mark_kind::doubt, now_ms), now_ms));
  }
}

/// Whoever joined a room that we know in full, and was only believed to be in rooms that we don't: a list that was held
/// for that belief may have gone through a gap.
void remote_list_writer::confirmed(const roster_change& what) {
  if (what.joined.empty() || !kept_updates(db_).any_partial()) return;
  if (db_.integer("SELECT 1 FROM partial_join WHERE room = ?", what.room)) return;
  std::vector<std::string> doubtful;
  for (const auto& user : what.joined) {
    if (!find(user)) continue;
    const bool surely =
        db_.integer("SELECT 1 FROM member t INDEXED BY member_theirs WHERE t.user = ?1 AND t.server > 1 "
                    "AND t.membership = 'join' AND t.room <> ?2 AND EXISTS (SELECT 1 FROM member o "
                    "INDEXED BY member_joined WHERE o.room = t.room AND o.server = 1 "
                    "AND o.membership = 'join') AND NOT EXISTS (SELECT 1 FROM partial_join p "
                    "WHERE p.room = t.room) LIMIT 1",
                    user, what.room)
            .has_value();
    if (!surely) doubtful.push_back(user);
  }
  distrust(doubtful, what.at_ms);
}

/// L14: whoever shares no room any more isn't trusted, and not kept.
void remote_list_writer::roster_changed(const roster_change& what) {
  confirmed(what);
  distrust(what.rejoined, what.at_ms);
  bool we_went = false;
  auto ours = names_.server_name(our_server);
  for (const auto& user : what.parted) {
    if (server_of(user) == ours) we_went = true;
    else if (!shares_a_room(db_, user)) untrack(user, what.at_ms);
  }
  if (!we_went || db_.integer("SELECT 1 FROM member INDEXED BY member_joined WHERE room = ? AND server = 1 "
                              "AND membership = 'join' LIMIT 1",
                              what.room))
    return;
  std::vector<std::string> users;
  {
    auto rows = db_.ask("SELECT user FROM member INDEXED BY member_joined WHERE room = ? AND server > 1 "
                        "AND membership = 'join'",
                        what.room);
    while (rows.step())
      users.push_back(rows.text(0));
  }
  for (const auto& user : users)
    if (!shares_a_room(db_, user)) untrack(user, what.at_ms);
}

void remote_list_writer::untrack(const std::string& user, std::int64_t now_ms) {
  // A fetch that runs now must not make a list trusted that went through a gap.
  untracked_[std::hash<std::string>{}(user)] = now_ms;
  applied_.erase(user);
  db_.run("DELETE FROM remote_user WHERE user = ?", user);
  if (db_.changes() > 0) db_.run("DELETE FROM remote_device WHERE user = ?", user);
}

void remote_list_writer::distrust(const std::vector<std::string>& users, std::int64_t now_ms) {
  std::vector<std::string> told;
  for (const auto& user : users) {
    if (!find(user)) continue;
    untrack(user, now_ms);
    if (shares_a_room(db_, user)) told.push_back(user);
  }
  if (!told.empty()) announcements_.changed(told, now_ms);
}

/// L14. A clock that was set back meanwhile can't say what came first: then it counts as a gap.
bool remote_list_writer::was_untracked_since(const std::string& user, std::int64_t began_ms,
                                             std::int64_t now_ms) const {
  const auto hash = std::hash<std::string>{}(user);
  for (const auto* ended : {&untracked_, &untracked_before_})
    if (const auto found = ended->find(hash); found != ended->end() && (began_ms <= found->second || began_ms > now_ms))
      return true;
  return false;
}

void remote_list_writer::tidy(std::int64_t now_ms) {
  if (now_ms - hour_began_ms_ < hour_ms && now_ms >= hour_began_ms_) return;
  untracked_before_ = std::exchange(untracked_, {});
  hour_began_ms_ = now_ms;
}

/// What is rolled back may stay remembered: nothing is taken for known but what is held just so.
void remote_list_writer::remember(const std::string& user, std::int64_t stream_id) {
  if (applied_.size() >= max_remembered_users && !applied_.contains(user)) applied_.clear();
  auto& ids = applied_[user];
  ids.push_back(stream_id);
  if (ids.size() > max_remembered_ids) ids.pop_front();
}

bool remote_list_writer::is_remembered(const std::string& user, std::int64_t stream_id) const {
  auto found = applied_.find(user);
  return found != applied_.end() &&
         std::find(found->second.begin(), found->second.end(), stream_id) != found->second.end();
}

} // namespace ranvier::storage
