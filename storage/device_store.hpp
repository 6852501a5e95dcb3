#pragma once
#include "messages/device_lists.hpp"
#include "messages/records.hpp"
#include "storage/device_entries.hpp"
#include "storage/device_pruning.hpp"
#include "storage/one_time_keys.hpp"

#include <optional>

namespace ranvier::storage {

/// What a record did to a local user's list.
struct list_change {
  bool changed = false; ///< it isn't what it was, for whoever may see everything of it
  position pos = 0;     ///< of the entry that other servers are owed; 0: nothing that they see changed
};

/// Devices, cross-signing keys and one-time keys of our own users, as the host feeds them. A change that changes
/// nothing writes nothing; one that does stands in the log as an entry (DESIGN section 7). Works inside the ledger's
/// transaction.
class device_store {
public:
  /// `display_names`: whether other servers are told them.
  device_store(database& db, event_log& log, inbox_store& inbox, bool display_names)
      : db_(db)
      , entries_(db, log)
      , pruning_(db)
      , keys_(db, inbox)
      , display_names_(display_names) {}

  /// Why a record can't be taken: no device may be named like a cross-signing key of its user (L16).
  std::optional<record_problem> refuse(const device_record& what);
  std::optional<record_problem> refuse(const cross_signing_record& what);
  list_change apply(const device_record& what, std::int64_t now_ms);
  list_change apply(const cross_signing_record& what, std::int64_t now_ms);
  std::optional<record_problem> apply(const one_time_keys_record& what) { return keys_.add(what); }
  /// Each key once, ever; the oldest first, then the fallback key (Q5).
  claimed_own_keys claim(const claim_own_keys& what, std::int64_t now_ms) { return keys_.claim(what, now_ms); }
  /// A user of ours joined a room with remote servers, by a membership line.
  position share(std::string_view user, row_id room, std::int64_t now_ms) { return entries_.share(user, room, now_ms); }
  /// A step of clean-up, for the heartbeat.
  void tidy(std::int64_t now_ms) { pruning_.step(now_ms); }

private:
  database& db_;
  device_entries entries_;
  device_pruning pruning_;
  one_time_key_store keys_;
  bool display_names_;
};

} // namespace ranvier::storage
