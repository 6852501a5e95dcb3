#pragma once
#include "storage/name_table.hpp"

#include "messages/log_entry.hpp"

#include <map>
#include <optional>
#include <vector>

namespace ranvier::storage {

/// Positions in (from, to] of one room in which a server is owed the room's events, all inside one closed interval or
/// all outside of any. A target is a stretch of one position, for an event that no span covers.
struct stretch {
  row_id room = 0;
  position from = 0, to = 0;
  bool target = false;
  int interval = -1; ///< index of the closed interval, -1 for none
};

/// An interval in which a gate was closed: (from, to].
struct closed_interval {
  position from = 0, to = 0;
};

/// Cuts each stretch at the borders of the intervals (in order, apart from each other). Pure.
std::vector<stretch> cut_at(const std::vector<stretch>& whole, const std::vector<closed_interval>& intervals);

/// What a server is owed of one room, all inside one closed interval or all outside of any, newest stretch first.
struct owed_room {
  row_id room = 0;
  bool in_interval = false;
  std::vector<stretch> stretches;
};

/// Everything that one server is owed above a cursor, room by room. Rule K (of what was logged in a closed interval
/// each room's newest K events are sent) is worked out for a room only when somebody asks: a page looks at few of its
/// rooms.
class owed_stretches {
public:
  /// `name` is the server's, for `exclude`. With `only` nothing but that room is looked at.
  owed_stretches(database& db, row_id server, std::string_view name, position after, std::int64_t newest_kept,
                 std::optional<row_id> only = {});

  std::size_t size() const { return rooms_.size(); }
  row_id room(std::size_t which) const { return rooms_[which].room; }
  const owed_room& at(std::size_t which) const { return rooms_[which]; }
  /// Next owed position of a room above `after`, let go or not; 0 if there is none.
  position next(std::size_t which, position after);
  /// Everything of the room below this position is let go by rule K; 0: nothing is.
  position first_kept(std::size_t which);
  /// Events at or below `through` that rule K lets go, of rooms for which first_kept was asked.
  std::vector<position> let_go(position through);
  /// Events that are sent.
  std::int64_t kept(std::size_t which);
  /// Events that are owed, sent or let go.
  std::int64_t total(std::size_t which);

private:
  void load(position after, std::optional<row_id> only);
  std::vector<stretch> load_targets(position after, std::optional<row_id> only);
  position next_above(const stretch& where, position after);
  position cutoff(const owed_room& room);
  std::int64_t count(const owed_room& room, position upto, std::int64_t at_most);

  database& db_;
  row_id server_;
  std::string excluded_; ///< as it stands in pdu.exclude
  std::int64_t newest_kept_;
  std::vector<owed_room> rooms_;
  std::map<std::size_t, position> first_kept_;
};

} // namespace ranvier::storage
