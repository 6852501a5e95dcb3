#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ranvier::storage {

struct backup_report {
  std::int64_t bytes = 0;
  bool broken_off = false; ///< `go_on` said no; nothing is left of the copy
};

/// Copies a database that is in use to a new file (mode 0600): the state of one moment, by SQLite's backup API, over a
/// connection of its own. The writer goes on meanwhile; only its log isn't cut back until the copy is done. The copy is
/// made beside `to` and gets its name when it is complete and synced. Never overwrites: throws error with a sentence if
/// `to` exists, can't be made, or the disk is full. `go_on` is asked a few times a second. Blocks.
backup_report back_up(const std::string& from, const std::string& to, const std::function<bool()>& go_on);

struct check_report {
  std::vector<std::string> problems; ///< as SQLite words them, at most 100; empty: it is sound
  bool broken_off = false;
};

/// Looks every page and index over, over a connection of its own, while the database is in use. Throws error if it
/// can't be read at all. `go_on` is asked a few times a second. Blocks for as long as reading the whole file takes.
check_report check(const std::string& path, const std::function<bool()>& go_on);

} // namespace ranvier::storage
