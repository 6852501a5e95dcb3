#pragma once
#include "messages/gate_row.hpp"
#include "messages/quarantine.hpp"
#include "storage/name_table.hpp"

#include <string>
#include <vector>

namespace ranvier::storage {

/// A page of what a destination is owed, in log order, after the rules of catch-up (DESIGN section 4).
struct owed_page {
  std::vector<log_entry> pdus, to_device; ///< `servers` is null
  bool more_pdus = false, more_to_device = false;
  position pdus_through = 0;             ///< everything owed up to here is given or let go
  position to_device_through = 0;        ///< likewise
  std::int64_t let_go = 0;               ///< events in that stretch that rule K let go
  std::vector<position> let_go_at;       ///< where they stand, in order
  std::vector<std::string> rooms_behind; ///< rooms that have events beyond this page, if there is more
  /// Events below the cursor that an extra says are owed too, in log order: to be sent before `pdus`. While there are
  /// more of them than a page holds, `pdus` is empty: an extra of a room goes before newer events of it.
  std::vector<log_entry> extras;
  bool more_extras = false;
  std::vector<retried_item> retried; ///< of the quarantine, to go again before everything; read when extras are
};
struct owed_limits {
  std::size_t max_pdus = 0, max_bytes = 0, max_to_device = 0;
  std::size_t max_extras = 0; ///< 0: extras aren't read, and hold nothing back
  position extras_after = 0;  ///< those up to here are in hand already
};
struct owed_totals {
  std::int64_t pdus = 0, to_device = 0;
  std::int64_t oldest_at_ms = 0; ///< 0: nothing waits
};

/// Questions about what is owed. Each looks only at the rooms of the server that it asks for, through indexes; the log
/// is never walked. Used inside a snapshot.
class owed_reader {
public:
  /// `newest_kept`: K, how many events of a room are kept of an interval in which a gate was closed.
  owed_reader(database& db, std::int64_t newest_kept)
      : db_(db)
      , newest_kept_(newest_kept) {}

  owed_page page(std::string_view server, const cursors& after, position upto, const owed_limits& limits);
  /// What would be sent if the gate opened now.
  owed_totals count(std::string_view server, const cursors& after);
  /// Servers that are owed something, in order of name, after `after`.
  std::vector<std::string> list(std::string_view after, std::size_t limit);

private:
  database& db_;
  std::int64_t newest_kept_;
};

} // namespace ranvier::storage
