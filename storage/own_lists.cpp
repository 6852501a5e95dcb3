#include "storage/own_lists.hpp"

#include "messages/ids.hpp"
#include "storage/one_time_keys.hpp"
#include "storage/own_list_page.hpp"

#include <algorithm>

namespace ranvier::storage {

device_updates own_lists::updates(const read_device_updates& what) {
  return own_list_page(db_, display_names_, what).make();
}

bool own_lists::is_ours(std::string_view user) {
  return server_of(user) == db_.text("SELECT name FROM server WHERE id = 1").value_or("");
}

own_list own_lists::list(std::string_view user) {
  if (!is_ours(user)) return {};
  auto version = db_.integer("SELECT version FROM local_user WHERE user = ?", user);
  const bool known =
      version || db_.integer("SELECT 1 FROM local_device WHERE user = ? LIMIT 1", user) ||
      db_.integer("SELECT 1 FROM cross_signing WHERE user = ?", user) ||
      db_.integer("SELECT 1 FROM member INDEXED BY member_ours_named WHERE user = ? AND server = 1 LIMIT 1", user);
  if (!known) return {};
  return {true, own_list_texts(db_, display_names_).list(user, version.value_or(0))};
}

known_keys_of_user own_lists::keys(std::string_view user, const std::vector<std::string>& devices,
                                   bool with_user_signing, bool for_federation) {
  known_keys_of_user out;
  if (!is_ours(user)) return out;
  out.state = list_state::own;
  const bool names = display_names_ || !for_federation;
  {
    auto rows = db_.ask("SELECT device, keys, display_name FROM local_device WHERE user = ? AND deleted = 0 "
                        "AND keys IS NOT NULL",
                        user);
    while (rows.step()) {
      auto device = rows.text(0);
      if (!devices.empty() && std::find(devices.begin(), devices.end(), device) == devices.end()) continue;
      out.devices[std::move(device)] =
          names && !rows.view(2).empty() ? own_list_texts::with_name(rows.text(1), rows.view(2)) : rows.text(1);
    }
  }
  auto row = db_.ask("SELECT master_key, self_signing_key, user_signing_key FROM cross_signing WHERE user = ?", user);
  if (!row.step()) return out;
  out.master_key = row.text(0);
  out.self_signing_key = row.text(1);
  if (with_user_signing && !for_federation) out.user_signing_key = row.text(2);
  return out;
}

one_time_key_counts own_lists::counts(std::string_view user, std::string_view device) {
  return count_keys(db_, user, device);
}

} // namespace ranvier::storage
