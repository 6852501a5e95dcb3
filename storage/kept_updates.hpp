#pragma once
#include "storage/list_announcements.hpp"

#include <string_view>
#include <vector>

namespace ranvier::storage {

/// Updates of device lists that came while a room was joined partially, of users who can't be placed: perhaps they are
/// in it (P11). Nothing is fetched; when no partial room is left that they could be in, those who turn out to share a
/// room are announced, the others are dropped. Writes happen inside the ledger's transaction.
class kept_updates {
public:
  /// Of one user so many devices are told apart.
  static constexpr std::int64_t devices_told_apart = 20;

  explicit kept_updates(database& db)
      : db_(db) {}

  /// A partial join is under way somewhere.
  bool any_partial();
  void keep(std::string_view user, std::string_view device, std::int64_t now_ms);
  /// The room has its full state, or was given up: who is known to share a room now. Their rows go; without a partial
  /// room left all others go too.
  std::vector<std::string> settle();

private:
  database& db_;
};

} // namespace ranvier::storage
