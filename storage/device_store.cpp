#include "storage/device_store.hpp"

#include "messages/canonical_json.hpp"

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

/// The public key in a cross-signing key (U13).
std::string public_key(const std::string& cross_signing_key) {
  json_document document(cross_signing_key);
  simdjson::dom::object keys;
  if (document.root()["keys"].get(keys) != simdjson::SUCCESS) return {};
  for (auto [id, key] : keys)
    if (key.is_string()) return std::string(std::string_view(key));
  return {};
}

} // namespace

std::optional<record_problem> device_store::refuse(const device_record& what) {
  if (what.deleted) return {};
  auto row =
      db_.ask("SELECT master_key, self_signing_key, user_signing_key FROM cross_signing WHERE user = ?", what.user_id);
  if (!row.step()) return {};
  for (int i = 0; i < 3; ++i)
    if (!row.null(i) && public_key(row.text(i)) == what.device_id)
      return record_problem{"M_INVALID_PARAM", "\"device_id\" is a cross-signing key of the user; a device needs "
                                               "another name"};
  return {};
}

std::optional<record_problem> device_store::refuse(const cross_signing_record& what) {
  for (const auto* key : {&what.master_key, &what.self_signing_key, &what.user_signing_key})
    if (key->given() && db_.integer("SELECT 1 FROM local_device WHERE user = ? AND device = ? AND deleted = 0",
                                    what.user_id, public_key(key->value)))
      return record_problem{"M_INVALID_PARAM", "A cross-signing key has the name of one of the user's devices"};
  return {};
}

list_change device_store::apply(const device_record& what, std::int64_t now_ms) {
  bool known = false, deleted = false;
  stored keys, name;
  device_entries::appended entry;
  {
    auto row = db_.ask("SELECT keys, display_name, deleted, position, version FROM local_device "
                       "WHERE user = ? AND device = ?",
                       what.user_id, what.device_id);
    if (row.step()) {
      known = true;
      keys = column(row, 0);
      name = column(row, 1);
      deleted = row.integer(2) != 0;
      entry = {row.integer(3), row.integer(4)};
    }
  }
  // A deleted device that is fed again begins anew.
  if (deleted) keys = name = stored();
  auto new_keys = what.deleted ? stored() : after(keys, what.keys);
  auto new_name = what.deleted ? stored() : after(name, what.display_name);
  bool same_device = known ? deleted == what.deleted : what.deleted;
  if (same_device && keys == new_keys && name == new_name) return {};
  // A rename that nobody else is told is a change for our own users only.
  const bool seen = !same_device || keys != new_keys || display_names_;
  if (seen) entry = entries_.device(what.user_id, what.device_id, !what.initial, now_ms);
  db_.run(
      "INSERT OR REPLACE INTO local_device(user, device, keys, display_name, deleted, deleted_ms, position, version) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
      what.user_id, what.device_id, new_keys, new_name, what.deleted, what.deleted ? now_ms : 0, entry.pos,
      entry.version);
  if (what.deleted) keys_.drop(what.user_id, what.device_id);
  if (seen) pruning_.after_change(what.user_id, now_ms);
  return {true, seen && !what.initial ? entry.pos : 0};
}

list_change device_store::apply(const cross_signing_record& what, std::int64_t now_ms) {
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
  if (!told && new_user == user_signing) return {};
  db_.run(
      "INSERT OR REPLACE INTO cross_signing(user, master_key, self_signing_key, user_signing_key) VALUES(?, ?, ?, ?)",
      what.user_id, new_master, new_self, new_user);
  // The user-signing key is never told to other servers (U12).
  return {true, told ? entries_.signing(what.user_id, now_ms) : 0};
}

} // namespace ranvier::storage
