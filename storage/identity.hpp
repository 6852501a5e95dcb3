#pragma once
#include "storage/database.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ranvier::storage {

/// Who the engine is; a database belongs to one identity (DESIGN section 6).
struct identity {
  std::string server_name, key_id, public_key;
};

/// What was found when the database was opened.
struct boot_report {
  bool created = false;
  bool identity_changed = false;                ///< accepted: what was said as somebody else can't be said any more
  std::string instance;                         ///< made with the database
  std::int64_t last_heartbeat_ms = 0;           ///< 0: never
  std::vector<std::string> cursors_pulled_back; ///< destinations whose cursor stood beyond the head (B05)
};

/// Makes or migrates the database, checks who it belongs to, and mends what must be mended before anyone reads it.
/// `fresh_instance` is a random id, used if the database is new. With `accept_new_identity` another server name or key
/// is written down instead of refused; after another server name all rosters must be fed again, since who is local has
/// changed. Throws newer_database, other_identity, error.
boot_report prepare(const std::string& path, const identity& who, bool accept_new_identity,
                    const std::string& fresh_instance);

} // namespace ranvier::storage
