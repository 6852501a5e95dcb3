#pragma once
#include "messages/device_lists.hpp"
#include "storage/name_table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// Questions about the device lists of our own users: what servers are owed of them, and what everybody may see of
/// them. Used inside a snapshot.
class own_lists {
public:
  /// `display_names`: whether other servers are told them.
  own_lists(database& db, bool display_names)
      : db_(db)
      , display_names_(display_names) {}

  /// The EDUs that a server is owed, as the content stands now (L3-L6, U10-U12).
  device_updates updates(const read_device_updates& what);
  /// How many entries a server is owed above its cursor, and when the oldest was appended (ms, 0: none).
  struct waiting {
    std::int64_t entries = 0, oldest_at_ms = 0;
  };
  waiting count(std::string_view server, position after);
  /// Servers that are owed something of this kind, in order of name, after `after`.
  std::vector<std::string> owed_servers(std::string_view after, std::size_t limit);

  own_list list(std::string_view user);
  known_keys_of_user keys(std::string_view user, const std::vector<std::string>& devices, bool with_user_signing,
                          bool for_federation);
  one_time_key_counts counts(std::string_view user, std::string_view device);

private:
  bool is_ours(std::string_view user);

  database& db_;
  bool display_names_;
};

} // namespace ranvier::storage
