#include "storage/own_list_page.hpp"

#include <algorithm>
#include <set>

namespace ranvier::storage {

namespace {

/// Up to so many entries above a cursor they are walked, whoever's they are.
constexpr std::int64_t entries_walked = 2'000;
/// Up to so many memberships of ours in a server's rooms its users are looked at one by one.
constexpr std::int64_t members_walked = 20'000;
/// A user with more devices is told by one update that makes the peer fetch the list.
constexpr std::size_t devices_told_of_share = 50;

} // namespace

std::optional<position> sharing_since(database& db, std::string_view user, row_id server) {
  return db.integer("SELECT min(max(s.since, m.changed_at)) FROM member m INDEXED BY member_ours CROSS JOIN span s "
                    "ON s.room = m.room AND s.server = ?2 AND s.until = 9223372036854775807 "
                    "WHERE m.user = ?1 AND m.server = 1 AND m.membership = 'join'",
                    user, server);
}

device_updates own_list_page::make() {
  out_.through = what_.upto;
  auto server = db_.integer("SELECT id FROM server WHERE name = ?", what_.destination);
  if (!server) return out_;
  server_ = *server;
  full_ = what_.max_edus == 0;
  put_extras();
  if (what_.after >= what_.upto) return std::move(out_);
  for (const auto& user : what_.first)
    put(plan_of(user, true), what_.upto);
  by_users_ = many_entries() && few_members();
  if (by_users_) walk_users();
  else walk_entries();
  if (hole_ != 0) {
    before_superseded();
    out_.through = std::max(what_.after, hole_ - 1);
  }
  return std::move(out_);
}

/// The cursor must not pass the superseded versions of a user whose newest entry isn't told yet: its next prev_id is
/// what the server was told last, and the version at the cursor says what that was.
void own_list_page::before_superseded() {
  // Nothing if all of the user is told.
  auto reached = [](const plan& one) -> std::optional<position> {
    if (one.items.empty() || (!one.blocked && one.next >= one.items.size())) return {};
    return one.blocked || one.next == 0 ? one.told : one.items[one.next - 1].pos;
  };
  if (by_users_) {
    for (const auto& [user, one] : plans_)
      if (auto told = reached(one))
        if (auto first = db_.integer("SELECT min(position) FROM device_entry INDEXED BY device_entry_superseded "
                                     "WHERE user = ? AND newest = 0 AND version > 0 AND position > ? AND position < ?",
                                     user, *told, hole_))
          hole_ = *first;
    return;
  }
  auto rows = db_.ask("SELECT position, user FROM device_entry WHERE position > ? AND position < ? AND newest = 0 "
                      "AND version > 0 ORDER BY position",
                      what_.after, hole_);
  while (rows.step()) {
    auto told = reached(plan_of(rows.text(1), false));
    if (!told || rows.integer(0) <= *told) continue;
    hole_ = rows.integer(0);
    return;
  }
}

/// Changes that the server missed while a room was joined partially, below its cursor or in a room that we left.
void own_list_page::put_extras() {
  struct extra {
    row_id room;
    position from, to;
  };
  std::vector<extra> extras;
  {
    auto rows = db_.ask("SELECT room, from_position, to_position FROM list_extra WHERE server = ?", server_);
    while (rows.step())
      extras.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
  }
  std::map<std::string, plan> told;
  for (const auto& one : extras) {
    auto through = one.to;
    auto rows = db_.ask("SELECT e.position, e.kind, e.user, e.device, e.version FROM device_entry e "
                        "WHERE e.newest = 1 AND e.kind <> 4 AND e.position > ?2 AND e.position <= ?3 AND EXISTS ("
                        "SELECT 1 FROM member m WHERE m.room = ?1 AND m.server = 1 AND m.user = e.user "
                        "AND (m.membership = 'join' OR m.changed_at > ?2)) ORDER BY e.position",
                        one.room, one.from, one.to);
    while (rows.step()) {
      const auto pos = rows.integer(0);
      const auto user = rows.text(2);
      if (pos > what_.after && sharing_since(db_, user, server_)) continue; // it goes in its turn
      auto& chain = told[user];
      if (chain.user.empty()) {
        chain.user = user;
        chain.told = one.from;
      }
      if (put_item(chain, {pos, pos, entry_kind(rows.integer(1)), rows.text(3), rows.integer(4)})) continue;
      through = pos - 1;
      out_.more = true;
      break;
    }
    if (through > one.from) out_.extras.emplace_back(one.room, through);
    if (full_) break;
  }
  for (auto& update : out_.list)
    update.through = 0; // no cursor moves with them
}

bool own_list_page::many_entries() {
  return db_.integer("SELECT count(*) FROM (SELECT 1 FROM device_entry INDEXED BY device_entry_newest "
                     "WHERE newest = 1 AND position > ? AND position <= ? LIMIT ?)",
                     what_.after, what_.upto, entries_walked + 1)
             .value_or(0) > entries_walked;
}

bool own_list_page::few_members() {
  return db_.integer("SELECT count(*) FROM (SELECT 1 FROM span s INDEXED BY span_by_server CROSS JOIN member m "
                     "INDEXED BY member_joined ON m.room = s.room AND m.server = 1 AND m.membership = 'join' "
                     "WHERE s.server = ? AND s.until = 9223372036854775807 LIMIT ?)",
                     server_, members_walked + 1)
             .value_or(0) <= members_walked;
}

/// In log order over everybody's entries, until the page is full.
void own_list_page::walk_entries() {
  auto rows = db_.ask("SELECT position, user FROM device_entry INDEXED BY device_entry_newest "
                      "WHERE newest = 1 AND position > ? AND position <= ? ORDER BY position",
                      what_.after, what_.upto);
  while (rows.step())
    if (!put(plan_of(rows.text(1), false), rows.integer(0))) return;
}

/// The same for a server that shares rooms with few of ours, however much happened elsewhere.
void own_list_page::walk_users() {
  std::vector<std::string> users;
  {
    auto rows =
        db_.ask("SELECT DISTINCT m.user FROM span s INDEXED BY span_by_server CROSS JOIN member m "
                "INDEXED BY member_joined ON m.room = s.room AND m.server = 1 AND m.membership = 'join' "
                "WHERE s.server = ?1 AND s.until = 9223372036854775807 AND EXISTS (SELECT 1 FROM device_entry e "
                "INDEXED BY device_entry_newest_of_user WHERE e.user = m.user AND e.newest = 1 "
                "AND e.position > ?2 AND e.position <= ?3)",
                server_, what_.after, what_.upto);
    while (rows.step())
      users.push_back(rows.text(0));
  }
  std::vector<std::pair<position, plan*>> order;
  for (const auto& user : users) {
    auto& one = plan_of(user, false);
    for (auto i = one.next; i < one.items.size(); ++i)
      order.emplace_back(one.items[i].trigger, &one);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [trigger, one] : order)
    if (!put(*one, trigger)) return;
}

own_list_page::plan& own_list_page::plan_of(const std::string& user, bool ahead) {
  auto [found, fresh] = plans_.try_emplace(user);
  if (!fresh) return found->second;
  auto& one = found->second;
  one.user = user;
  auto sent = what_.sent.find(user);
  one.told = std::max(what_.after, sent == what_.sent.end() ? 0 : sent->second);
  if (auto began = sharing_since(db_, user, server_)) {
    one.began = *began;
    load(one, ahead);
  }
  return one;
}

void own_list_page::load(plan& one, bool ahead) {
  const auto shared = owed_share(one);
  const auto& throttled = what_.throttled;
  one.blocked = std::find(throttled.begin(), throttled.end(), one.user) != throttled.end();
  if (shared.pos != 0 && shared.at_ms > what_.shares_before_ms) {
    one.blocked = true;
    if (!ahead && (out_.next_share_ms == 0 || shared.at_ms < out_.next_share_ms)) out_.next_share_ms = shared.at_ms;
  }
  if (ahead) one.blocked = false;
  if (shared.pos != 0) {
    auto first = db_.integer("SELECT position FROM device_entry INDEXED BY device_entry_newest_of_user "
                             "WHERE user = ? AND newest = 1 AND position > ? ORDER BY position LIMIT 1",
                             one.user, one.told);
    one.items.push_back({first.value_or(shared.pos), shared.pos, entry_kind::share, "", 0});
  }
  auto rows =
      db_.ask("SELECT position, kind, device, version FROM device_entry INDEXED BY device_entry_newest_of_user "
              "WHERE user = ? AND newest = 1 AND position > ? AND position <= ? AND kind <> 4 ORDER BY position",
              one.user, std::max(one.told, shared.pos), what_.upto);
  while (one.items.size() <= what_.max_edus && rows.step())
    one.items.push_back({rows.integer(0), rows.integer(0), entry_kind(rows.integer(1)), rows.text(2), rows.integer(3)});
}

/// The newest share of the user that the server is owed: it tells everything that older ones would.
own_list_page::share own_list_page::owed_share(const plan& one) {
  auto rows = db_.ask("SELECT e.position, e.room, e.at_ms FROM device_entry e WHERE e.user = ?1 AND e.device = '' "
                      "AND e.kind = 4 AND e.position > ?2 AND e.position <= ?3 "
                      "AND EXISTS (SELECT 1 FROM span s WHERE s.room = e.room AND s.server = ?4 "
                      "AND s.since <= e.position AND s.until = 9223372036854775807) "
                      "AND EXISTS (SELECT 1 FROM member m WHERE m.room = e.room AND m.server = 1 AND m.user = e.user "
                      "AND m.membership = 'join') ORDER BY e.position DESC",
                      one.user, one.told, what_.upto, server_);
  while (rows.step())
    if (!shared_before(one, rows.integer(0), rows.integer(1))) return {rows.integer(0), rows.integer(2)};
  return {};
}

/// Whether user and server shared another room just before, and that isn't news to the server either. That the user
/// came to the other room only after what the server knows is seen by that room's own share entry.
bool own_list_page::shared_before(const plan& one, position at, row_id room) {
  return db_
      .integer("SELECT 1 FROM (SELECT room FROM member INDEXED BY member_ours WHERE user = ?1 AND server = 1 "
               "AND membership = 'join' AND changed_at < ?3 UNION ALL SELECT room FROM member "
               "INDEXED BY member_ours_left WHERE user = ?1 AND server = 1 AND previous = 'join' "
               "AND membership <> 'join' AND changed_at > ?3) m CROSS JOIN span s ON s.room = m.room AND s.server = ?2 "
               "AND s.since < ?3 AND s.until >= ?3 WHERE m.room <> ?4 AND NOT EXISTS (SELECT 1 FROM device_entry e "
               "WHERE e.user = ?1 AND e.device = '' AND e.kind = 4 AND e.room = m.room AND e.position > ?5) LIMIT 1",
               one.user, server_, at, room, one.told)
      .has_value();
}

/// Puts what a user's entries up to a position say into the page. False if there is no place left for something that
/// may go now: then the page is done.
bool own_list_page::put(plan& one, position upto) {
  for (; one.next < one.items.size() && one.items[one.next].trigger <= upto; ++one.next) {
    const auto& next = one.items[one.next];
    const bool went = !one.blocked && put_item(one, next);
    if (went) continue;
    hole_ = hole_ == 0 ? next.trigger : std::min(hole_, next.trigger);
    if (!one.blocked) {
      out_.more = true;
      return false;
    }
    // All the rest of the user waits too.
    one.next = one.items.size();
    return true;
  }
  return true;
}

bool own_list_page::put_item(plan& one, const item& what) {
  if (full_) return false;
  const bool chained = one.chained;
  const auto version = one.version;
  auto updates = tell(one, what);
  auto fits = [&] {
    std::size_t bytes = bytes_;
    for (const auto& update : updates)
      bytes += update.edu.size();
    return out_.list.size() + updates.size() <= what_.max_edus && bytes <= what_.max_bytes;
  };
  if (!fits()) {
    one.chained = chained;
    one.version = version;
    full_ = !out_.list.empty();
    if (full_) return false;
    // One item always goes; a share that no page can hold goes as one update that makes the peer fetch.
    updates = what.kind == entry_kind::share ? tell_share(one, what, false) : tell(one, what);
  }
  for (auto& update : updates) {
    bytes_ += update.edu.size();
    out_.list.push_back(std::move(update));
  }
  return true;
}

std::vector<device_update> own_list_page::tell(plan& one, const item& what) {
  switch (what.kind) {
  case entry_kind::share:
    return tell_share(one, what, true);
  case entry_kind::signing:
    return {{one.user, texts_.signing_update(one.user), what.pos, true}};
  default:
    break;
  }
  auto prev = link(one, what.version);
  return {{one.user, texts_.device_update(one.user, what.device, what.version, prev), what.pos, false}};
}

/// The whole list as it stood at the share, without the devices that changed since: those have entries of their own.
/// Each update has the version of its device's latest change, the last one the user's at the share, so that the next
/// change links to it.
std::vector<device_update> own_list_page::tell_share(plan& one, const item& what, bool in_full) {
  struct device {
    std::string id;
    std::int64_t version;
  };
  std::vector<device> devices;
  {
    // The newest first: one more than are told says that there are too many.
    auto rows = db_.ask("SELECT device, version FROM local_device WHERE user = ? AND deleted = 0 AND position <= ? "
                        "ORDER BY version DESC, device DESC LIMIT ?",
                        one.user, what.pos, static_cast<std::int64_t>(devices_told_of_share + 1));
    while (rows.step())
      devices.push_back({rows.text(0), rows.integer(1)});
  }
  const bool all = in_full && devices.size() <= devices_told_of_share;
  if (!all && devices.size() > 1) devices.erase(devices.begin() + 1, devices.end());
  std::reverse(devices.begin(), devices.end());
  const auto version = version_at(one.user, what.pos);
  if (!devices.empty()) devices.back().version = version;
  std::vector<device_update> out;
  for (const auto& each : devices) {
    auto prev = out.empty() ? unknown_link(one, each.version) : link(one, each.version);
    one.chained = true;
    one.version = each.version;
    out.push_back({one.user, texts_.device_update(one.user, each.id, each.version, prev), one.told, false});
  }
  if (version > 0) {
    one.chained = true;
    one.version = version;
  }
  const bool later = db_.integer("SELECT 1 FROM device_entry WHERE user = ? AND device = '' AND kind = 3 "
                                 "AND position > ?",
                                 one.user, what.pos)
                         .has_value();
  if (!later && texts_.has_signing_keys(one.user))
    out.push_back({one.user, texts_.signing_update(one.user), one.told, true});
  if (!out.empty()) out.back().through = what.pos;
  return out;
}

std::vector<std::int64_t> own_list_page::link(plan& one, std::int64_t version) {
  auto prev = one.chained ? std::vector{one.version} : first_link(one, version);
  one.chained = true;
  one.version = version;
  return prev;
}

/// What the server knows of the user: the version at the moment up to which it was told, or at which sharing began (its
/// fetch gave that or a later one). If something newer was let go, that one's, which it can't have.
std::vector<std::int64_t> own_list_page::first_link(const plan& one, std::int64_t version) {
  const auto base = std::max(one.told, one.began);
  std::int64_t known = 0;
  {
    auto row = db_.ask("SELECT let_go, let_go_version FROM local_user WHERE user = ?", one.user);
    if (row.step() && base < row.integer(0)) known = row.integer(1);
  }
  if (known == 0) known = version_at(one.user, base);
  return known > 0 && known < version ? std::vector{known} : unknown_link(one, version);
}

/// Empty for the user's first version ever, else an id that nobody has (L6).
std::vector<std::int64_t> own_list_page::unknown_link(const plan& one, std::int64_t version) {
  auto first = db_.integer("SELECT first_version FROM local_user WHERE user = ?", one.user).value_or(version);
  if (version <= first) return {};
  return {first - 1};
}

std::int64_t own_list_page::version_at(const std::string& user, position at) {
  return db_
      .integer("SELECT version FROM device_entry INDEXED BY device_entry_versions WHERE user = ? AND position <= ? "
               "AND version > 0 ORDER BY position DESC LIMIT 1",
               user, at)
      .value_or(0);
}

} // namespace ranvier::storage
