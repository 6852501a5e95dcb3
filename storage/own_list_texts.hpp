#pragma once
#include "messages/device_lists.hpp"
#include "storage/name_table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// What others are told of a local user's list, as canonical JSON made of what is stored now.
class own_list_texts {
public:
  /// `display_names`: whether other servers are told them.
  own_list_texts(database& db, bool display_names)
      : db_(db)
      , display_names_(display_names) {}

  /// m.device_list_update (U10, U11).
  std::string device_update(std::string_view user, std::string_view device, std::int64_t stream_id,
                            const std::vector<std::int64_t>& prev_ids);
  /// m.signing_key_update, never with the user-signing key (U12).
  std::string signing_update(std::string_view user);
  bool has_signing_keys(std::string_view user);
  /// GET /user/devices (Q1).
  std::string list(std::string_view user, std::int64_t stream_id);
  /// DeviceKeys with unsigned.device_display_name (Q3, U14).
  static std::string with_name(const std::string& keys, std::string_view name);

private:
  database& db_;
  bool display_names_;
};

} // namespace ranvier::storage
