#pragma once
#include "storage/name_table.hpp"

#include "messages/log_entry.hpp"

#include <map>
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

/// The stretches of one server above a cursor, after rule K: those that lie in a closed interval begin where the newest
/// K events of their room in that interval begin.
class owed_stretches {
public:
  /// `name` is the server's, for `exclude`.
  owed_stretches(database& db, row_id server, std::string_view name, position after, std::int64_t newest_kept);

  /// Next owed position of a stretch above `after`; 0 if there is none.
  position next(const stretch& where, position after);
  std::int64_t count(const stretch& where);
  /// What is sent.
  const std::vector<stretch>& kept() const { return kept_; }
  /// What rule K lets go.
  const std::vector<stretch>& let_go() const { return let_go_; }

private:
  void load(position after);
  void apply_rule(std::int64_t newest_kept);
  /// Position of the newest_kept-th newest owed event in these stretches of one room; 0 if there are not more than
  /// that.
  position cutoff(const std::vector<stretch>& group, std::int64_t newest_kept);

  database& db_;
  row_id server_;
  std::string excluded_; ///< as it stands in pdu.exclude
  std::vector<stretch> all_, kept_, let_go_;
};

} // namespace ranvier::storage
