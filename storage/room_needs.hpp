#pragma once
#include "storage/owed_stretches.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// A server needs the events of a room in (from, to], or rule K has let go of them for it; those that exclude it don't
/// concern it.
struct room_need {
  row_id server = 0; ///< 0: nobody's in particular
  position from = 0, to = 0;
  std::string name; ///< as it stands in pdu.exclude; empty: nothing of the room excludes anybody
};

/// What a room's servers need of its events up to `upto`, the newest.
struct room_needs {
  row_id room = 0;
  position upto = 0;
  std::vector<room_need> kept, let_go;
  bool excludes = false;  ///< some event of the room excludes somebody
  std::size_t looked = 0; ///< rows that it took to find it out
};

/// Stretches (from, to] of (0, upto] that nobody needs, in order. Pure.
std::vector<std::pair<position, position>> gaps_between(const std::vector<room_need>& kept, position upto);
/// Whether `one` concerns the event at `at` that excludes `exclude` (as it stands in the store). Pure.
bool concerns(const room_need& one, position at, std::string_view exclude);

/// Reads what the room's servers need. What may go is the same as what owed_stretches lets go: it is asked, but for
/// servers that are in the plainest of cases, of which a large room can have thousands.
room_needs find_needs(database& db, row_id room, position upto, std::int64_t newest_kept);

} // namespace ranvier::storage
