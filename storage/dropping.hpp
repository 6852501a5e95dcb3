#pragma once
#include "messages/introspection.hpp"
#include "storage/writer.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// What an operator's drop lets go of what a server is owed, and where that stands. Each throws error.
struct drop_plan {
  drop_counts counts;
  position upto = 0;                                    ///< everything owed up to here goes
  std::vector<position> extras;                         ///< events below the cursor
  std::vector<std::pair<row_id, position>> list_extras; ///< as acknowledge_list_extras takes them
  std::vector<std::int64_t> retried;                    ///< rows of the quarantine that were to go again
};

/// `before_ms` (wall clock): only what is older; 0: everything. `newest_kept`: K of the rules of catch-up. Reads only,
/// inside a snapshot or the ledger's transaction.
drop_plan plan_drop(database& db, std::string_view server, const cursors& after, std::int64_t before_ms,
                    std::int64_t newest_kept);

/// The same from the stored cursors, and done: they stand at `upto`, what went is counted as let go. A job of the
/// ledger; nothing for a server that was never owed anything.
owed_dropped drop_owed(writer& stores, const std::string& server, std::int64_t before_ms, std::int64_t newest_kept,
                       std::int64_t now_ms);

} // namespace ranvier::storage
