#include "storage/device_pruning.hpp"

#include <algorithm>
#include <unordered_map>

namespace ranvier::storage {

namespace {

/// A destination may have told more than its durable cursor says, but not for longer than this.
constexpr std::int64_t settled_after_ms = 120'000;
/// A deletion waits so long for servers that can't be reached.
constexpr std::int64_t tombstone_max_age_ms = 30LL * 86'400'000;
/// Beyond so many waiting deletions of one user the older ones are let go: a peer fetches once instead.
constexpr std::size_t max_tombstones = 500;
/// So many superseded entries of a user are looked at right away, and the newest half is left to the walk.
constexpr std::int64_t superseded_at_once = 64;
/// Bounds of one step of the walk.
constexpr std::size_t users_a_step = 1'000, work_a_step = 50'000, rooms_a_step = 100;

} // namespace

void device_pruning::step(std::int64_t now_ms) {
  work_ = 0;
  auto users = next_users(users_a_step);
  std::size_t done = 0;
  for (; done < users.size() && work_ < work_a_step; ++done)
    prune(users[done], now_ms);
  const bool whole = done == users.size() && users.size() < users_a_step;
  last_user_ = whole ? std::string() : users[done - 1];
  drop_shares();
}

void device_pruning::after_change(std::string_view user, std::int64_t now_ms) {
  auto held = db_.integer("SELECT count(*) FROM device_entry INDEXED BY device_entry_superseded "
                          "WHERE user = ? AND newest = 0",
                          user)
                  .value_or(0);
  if (held == 0 || held % superseded_at_once != 0) return;
  based_.clear();
  drop_superseded(user, now_ms, superseded_at_once / 2);
}

/// Users after the last one of whom something might go, in order of name.
std::vector<std::string> device_pruning::next_users(std::size_t limit) {
  std::vector<std::string> out;
  auto rows = db_.ask("SELECT user FROM (SELECT DISTINCT user FROM device_entry INDEXED BY device_entry_superseded "
                      "WHERE newest = 0 AND user > ?1 UNION SELECT DISTINCT user FROM local_device "
                      "INDEXED BY local_device_deleted WHERE deleted = 1 AND user > ?1) ORDER BY user LIMIT ?2",
                      last_user_, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back(rows.text(0));
  return out;
}

void device_pruning::prune(const std::string& user, std::int64_t now_ms) {
  based_.clear();
  auto deleted = tombstones(user);
  work_ += deleted.size() + 1;
  if (!deleted.empty()) drop_tombstones(user, deleted, now_ms);
  drop_superseded(user, now_ms, 0);
}

/// What each server that shares a room with the user knows of it: everything up to its cursor, or the list as it was
/// when sharing began.
const std::vector<position>& device_pruning::bases_of(std::string_view user) {
  if (based_ == user) return bases_;
  std::unordered_map<row_id, position> began;
  {
    auto rows = db_.ask("SELECT s.server, max(s.since, m.changed_at) FROM member m INDEXED BY member_ours "
                        "CROSS JOIN span s ON s.room = m.room AND s.until = 9223372036854775807 "
                        "WHERE m.user = ? AND m.server = 1 AND m.membership = 'join'",
                        user);
    for (; rows.step(); ++work_) {
      auto [found, fresh] = began.try_emplace(rows.integer(0), rows.integer(1));
      if (!fresh) found->second = std::min(found->second, rows.integer(1));
    }
  }
  bases_.clear();
  for (auto [server, since] : began)
    bases_.push_back(
        std::max(since, db_.integer("SELECT device_lists FROM cursor WHERE server = ?", server).value_or(0)));
  std::sort(bases_.begin(), bases_.end());
  bases_.erase(std::unique(bases_.begin(), bases_.end()), bases_.end());
  based_ = user;
  return bases_;
}

std::vector<device_pruning::tombstone> device_pruning::tombstones(std::string_view user) {
  std::vector<tombstone> out;
  auto rows = db_.ask("SELECT d.device, d.deleted_ms, e.position, e.version FROM local_device d "
                      "INDEXED BY local_device_deleted LEFT JOIN device_entry e INDEXED BY device_entry_by_user "
                      "ON e.user = d.user AND e.device = d.device AND e.kind = 2 AND e.newest = 1 "
                      "WHERE d.user = ? AND d.deleted = 1 ORDER BY e.position",
                      user);
  while (rows.step())
    out.push_back({rows.text(0), rows.integer(1), rows.integer(2), rows.integer(3)});
  return out;
}

void device_pruning::drop_tombstones(const std::string& user, const std::vector<tombstone>& all, std::int64_t now_ms) {
  const auto& bases = bases_of(user);
  const auto slowest = bases.empty() ? all.back().entry : bases.front();
  const auto last = db_.integer("SELECT max(position) FROM device_entry INDEXED BY device_entry_newest_of_user "
                                "WHERE user = ? AND newest = 1 AND kind = 2",
                                user)
                        .value_or(0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& one = all[i];
    if (one.entry > slowest) {
      const bool old = one.deleted_ms < now_ms - tombstone_max_age_ms || all.size() - i > max_tombstones;
      if (!old || one.entry == last) continue;
      let_go(user, one);
    }
    // Its version stays as long as a server may stand there.
    db_.run("UPDATE device_entry SET newest = 0 WHERE position = ?", one.entry);
    db_.run("DELETE FROM local_device WHERE user = ? AND device = ?", user, one.device);
  }
}

void device_pruning::let_go(const std::string& user, const tombstone& one) {
  db_.run("UPDATE local_user SET let_go = ?2, let_go_version = ?3 WHERE user = ?1 AND let_go < ?2", user, one.entry,
          one.version);
}

std::vector<device_pruning::superseded> device_pruning::superseded_of(std::string_view user) {
  std::vector<superseded> out;
  auto rows = db_.ask("SELECT e.position, n.position, n.at_ms FROM device_entry e INDEXED BY device_entry_superseded "
                      "JOIN device_entry n ON n.position = (SELECT min(f.position) FROM device_entry f "
                      "INDEXED BY device_entry_versions WHERE f.user = e.user AND f.version > 0 "
                      "AND f.position > e.position) WHERE e.user = ? AND e.newest = 0 ORDER BY e.position",
                      user);
  while (rows.step())
    out.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
  return out;
}

/// The user's newest row always stays: it says the version.
void device_pruning::drop_superseded(std::string_view user, std::int64_t now_ms, std::size_t kept_if_young) {
  auto all = superseded_of(user);
  work_ += all.size();
  const auto crowded = kept_if_young == 0 || all.size() <= kept_if_young ? 0 : all.size() - kept_if_young;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& one = all[i];
    if (i >= crowded && one.next_at_ms > now_ms - settled_after_ms) continue;
    const auto& bases = bases_of(user);
    auto standing = std::lower_bound(bases.begin(), bases.end(), one.pos);
    if (standing != bases.end() && *standing < one.next) continue;
    db_.run("DELETE FROM device_entry WHERE position = ?", one.pos);
  }
}

/// Shares that all servers of their room have passed.
void device_pruning::drop_shares() {
  std::vector<row_id> rooms;
  {
    auto rows = db_.ask("SELECT DISTINCT room FROM device_entry INDEXED BY device_entry_shares WHERE kind = 4 "
                        "AND room > ? ORDER BY room LIMIT ?",
                        last_room_, static_cast<std::int64_t>(rooms_a_step));
    while (rows.step())
      rooms.push_back(rows.integer(0));
  }
  last_room_ = rooms.size() < rooms_a_step ? 0 : rooms.back();
  for (auto room : rooms) {
    auto slowest = db_.integer("SELECT min(c.device_lists) FROM span s CROSS JOIN cursor c ON c.server = s.server "
                               "WHERE s.room = ?",
                               room);
    if (slowest) db_.run("DELETE FROM device_entry WHERE kind = 4 AND room = ? AND position <= ?", room, *slowest);
    else db_.run("DELETE FROM device_entry WHERE kind = 4 AND room = ?", room);
  }
}

} // namespace ranvier::storage
