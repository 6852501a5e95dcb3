#pragma once
#include "storage/event_log.hpp"

#include <cstdint>
#include <string_view>

namespace ranvier::storage {

/// What the log says of our users' device lists: device, signing and share entries, and each user's version (DESIGN
/// section 7). An entry says only what changed; what it is now is read when it is sent, so of each device the newest
/// entry is enough. Older ones stay for a while as the versions that cursors stand at. Writes happen inside the
/// ledger's transaction.
class device_entries {
public:
  device_entries(database& db, event_log& log)
      : db_(db)
      , log_(log) {}

  struct appended {
    position pos = 0;
    std::int64_t version = 0;
  };
  /// A device changed: the user's next version. With `told` false servers aren't owed it: only the version counts, as
  /// one that was let go.
  appended device(std::string_view user, std::string_view device, bool told, std::int64_t now_ms);
  /// Cross-signing keys changed: no version (L3 is about devices), the newest only.
  position signing(std::string_view user, std::int64_t now_ms);
  /// A user of ours joined a room with remote servers.
  position share(std::string_view user, row_id room, std::int64_t now_ms);

private:
  position append(entry_kind kind, std::string_view user, std::string_view device, row_id room, std::int64_t now_ms,
                  std::int64_t version, bool newest);

  database& db_;
  event_log& log_;
};

} // namespace ranvier::storage
