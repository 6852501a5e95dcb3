#include "storage/device_entries.hpp"

#include <algorithm>

namespace ranvier::storage {

position device_entries::append(entry_kind kind, std::string_view user, std::string_view device, row_id room,
                                std::int64_t now_ms, std::int64_t version, bool newest) {
  auto pos = log_.next();
  db_.run("INSERT INTO device_entry(position, kind, user, device, room, at_ms, version, newest) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
          pos, static_cast<int>(kind), user, device, room, now_ms, version, newest);
  return pos;
}

device_entries::appended device_entries::device(std::string_view user, std::string_view device, bool told,
                                                std::int64_t now_ms) {
  // A new counter starts at the wall clock, so versions don't repeat after a lost database.
  auto before = db_.integer("SELECT version FROM local_user WHERE user = ?", user).value_or(0);
  auto version = before > 0 ? before + 1 : std::max<std::int64_t>(now_ms, 2);
  // What wasn't sent yet of a device must not get lost, so only an entry that is sent takes the place of older ones.
  if (told)
    db_.run("UPDATE device_entry SET newest = 0 WHERE user = ? AND device = ? AND kind = 2 AND newest = 1", user,
            device);
  auto pos = append(entry_kind::device, user, device, 0, now_ms, version, told);
  db_.run("INSERT INTO local_user(user, version, first_version, latest) VALUES(?1, ?2, ?2, ?3) ON CONFLICT(user) DO "
          "UPDATE SET first_version = CASE version WHEN 0 THEN ?2 ELSE first_version END, version = ?2, "
          "latest = max(latest, ?3)",
          user, version, told ? pos : 0);
  // Nothing tells of it later: who shares a room already has a gap there, if it didn't fetch since.
  if (!told) db_.run("UPDATE local_user SET let_go = ?, let_go_version = ? WHERE user = ?", pos, version, user);
  return {pos, version};
}

position device_entries::signing(std::string_view user, std::int64_t now_ms) {
  db_.run("DELETE FROM device_entry WHERE user = ? AND device = '' AND kind = 3", user);
  auto pos = append(entry_kind::signing, user, "", 0, now_ms, 0, true);
  db_.run("INSERT INTO local_user(user, version, first_version, latest) VALUES(?1, 0, 0, ?2) "
          "ON CONFLICT(user) DO UPDATE SET latest = ?2",
          user, pos);
  return pos;
}

position device_entries::share(std::string_view user, row_id room, std::int64_t now_ms) {
  db_.run("DELETE FROM device_entry WHERE user = ? AND device = '' AND kind = 4 AND room = ?", user, room);
  return append(entry_kind::share, user, "", room, now_ms, 0, true);
}

} // namespace ranvier::storage
