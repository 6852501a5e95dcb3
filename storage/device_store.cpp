#include "storage/device_store.hpp"

namespace ranvier::storage {

namespace {

using stored = std::optional<std::string>;

/// What a column is to be: as it was, gone, or the new value.
stored after(const stored& was, const change<std::string>& wanted) {
  if (wanted.given()) return wanted.value;
  if (wanted.removed()) return {};
  return was;
}

stored column(const query& row, int at) { return row.null(at) ? stored() : stored(row.text(at)); }

} // namespace

void device_store::apply(const device_record& what, std::int64_t now_ms) {
  bool known = false, deleted = false;
  stored keys, name;
  {
    auto row = db_.ask("SELECT keys, display_name, deleted FROM local_device WHERE user = ? AND device = ?",
                       what.user_id, what.device_id);
    if (row.step()) {
      known = true;
      keys = column(row, 0);
      name = column(row, 1);
      deleted = row.integer(2) != 0;
    }
  }
  // A deleted device that is fed again begins anew.
  if (deleted) keys = name = stored();
  auto new_keys = what.deleted ? stored() : after(keys, what.keys);
  auto new_name = what.deleted ? stored() : after(name, what.display_name);
  bool same = known ? deleted == what.deleted && keys == new_keys && name == new_name : what.deleted;
  if (same) return;
  db_.run("INSERT INTO local_device(user, device, keys, display_name, deleted) VALUES(?, ?, ?, ?, ?) "
          "ON CONFLICT(user, device) DO UPDATE SET keys = excluded.keys, display_name = excluded.display_name, "
          "deleted = excluded.deleted",
          what.user_id, what.device_id, new_keys, new_name, what.deleted);
  if (what.deleted) {
    db_.run("DELETE FROM one_time_key WHERE user = ? AND device = ?", what.user_id, what.device_id);
    db_.run("DELETE FROM fallback_key WHERE user = ? AND device = ?", what.user_id, what.device_id);
  }
  if (!what.initial) log_.append_device_entry(entry_kind::device, what.user_id, what.device_id, 0, now_ms);
}

void device_store::apply(const cross_signing_record& what, std::int64_t now_ms) {
  stored master, self_signing, user_signing;
  {
    auto row = db_.ask("SELECT master_key, self_signing_key, user_signing_key FROM cross_signing WHERE user = ?",
                       what.user_id);
    if (row.step()) {
      master = column(row, 0);
      self_signing = column(row, 1);
      user_signing = column(row, 2);
    }
  }
  auto new_master = after(master, what.master_key), new_self = after(self_signing, what.self_signing_key),
       new_user = after(user_signing, what.user_signing_key);
  bool told = new_master != master || new_self != self_signing;
  if (!told && new_user == user_signing) return;
  db_.run(
      "INSERT OR REPLACE INTO cross_signing(user, master_key, self_signing_key, user_signing_key) VALUES(?, ?, ?, ?)",
      what.user_id, new_master, new_self, new_user);
  // The user-signing key is never told to other servers (U12).
  if (told) log_.append_device_entry(entry_kind::signing, what.user_id, "", 0, now_ms);
}

void device_store::apply(const one_time_keys_record& what) {
  for (const auto& [key_id, key] : what.one_time_keys)
    db_.run("INSERT OR IGNORE INTO one_time_key(user, device, key_id, key) VALUES(?, ?, ?, ?)", what.user_id,
            what.device_id, key_id, key);
  if (what.fallback_keys.is == change<std::map<std::string, std::string>>::what::unchanged) return;
  db_.run("DELETE FROM fallback_key WHERE user = ? AND device = ?", what.user_id, what.device_id);
  for (const auto& [key_id, key] : what.fallback_keys.value)
    db_.run("INSERT INTO fallback_key(user, device, key_id, key) VALUES(?, ?, ?, ?)", what.user_id, what.device_id,
            key_id, key);
}

} // namespace ranvier::storage
