#include "storage/owed_stretches.hpp"

#include <algorithm>
#include <limits>

namespace ranvier::storage {

std::vector<stretch> cut_at(const std::vector<stretch>& whole, const std::vector<closed_interval>& intervals) {
  std::vector<stretch> out;
  for (const auto& one : whole) {
    auto at = one.from;
    for (std::size_t i = 0; i < intervals.size() && at < one.to; ++i) {
      const auto& gap = intervals[i];
      if (gap.to <= at) continue;
      if (gap.from >= one.to) break;
      if (gap.from > at) out.push_back({one.room, at, gap.from, one.target, -1});
      at = std::max(at, gap.from);
      auto end = std::min(one.to, gap.to);
      out.push_back({one.room, at, end, one.target, static_cast<int>(i)});
      at = end;
    }
    if (at < one.to) out.push_back({one.room, at, one.to, one.target, -1});
  }
  return out;
}

namespace {
// The index holds only events without destinations of their own; those with some are targets.
#define RANVIER_OF_A_ROOM                                                                                              \
  "FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ? AND position > ? AND position <= ? "                \
  "AND (exclude IS NULL OR instr(exclude, ?) = 0) "
constexpr std::string_view next_sql = "SELECT position " RANVIER_OF_A_ROOM "ORDER BY position LIMIT 1";
constexpr std::string_view newest_sql = "SELECT position " RANVIER_OF_A_ROOM "ORDER BY position DESC LIMIT ?";
constexpr std::string_view nth_newest_sql =
    "SELECT position " RANVIER_OF_A_ROOM "ORDER BY position DESC LIMIT 1 OFFSET ?";
constexpr std::string_view count_sql = "SELECT count(*) FROM (SELECT 1 " RANVIER_OF_A_ROOM "LIMIT ?)";
#undef RANVIER_OF_A_ROOM

/// An event that names a server which has a span over it too is owed as a target, once: its position is cut out.
void without(const std::vector<position>& targets, stretch span, std::vector<stretch>& out) {
  for (auto one : targets) {
    if (one <= span.from || one > span.to) continue;
    if (span.from < one - 1) out.push_back({span.room, span.from, one - 1});
    span.from = one;
  }
  if (span.from < span.to) out.push_back(span);
}
} // namespace

owed_stretches::owed_stretches(database& db, row_id server, std::string_view name, position after,
                               std::int64_t newest_kept, std::optional<row_id> only)
    : db_(db)
    , server_(server)
    , excluded_("\n" + std::string(name) + "\n")
    , newest_kept_(newest_kept) {
  load(after, only);
}

std::vector<stretch> owed_stretches::load_targets(position after, std::optional<row_id> only) {
  std::vector<stretch> targets;
  auto take = [&](query rows) {
    while (rows.step())
      targets.push_back({rows.integer(0), rows.integer(1) - 1, rows.integer(1), true});
  };
  if (only)
    take(db_.ask("SELECT room, position FROM target INDEXED BY target_by_room WHERE room = ? AND position > ? "
                 "AND server = ?",
                 *only, after, server_));
  else take(db_.ask("SELECT room, position FROM target WHERE server = ? AND position > ?", server_, after));
  return targets;
}

void owed_stretches::load(position after, std::optional<row_id> only) {
  const auto targets = load_targets(after, only);
  std::map<row_id, std::vector<position>> named;
  for (const auto& one : targets)
    named[one.room].push_back(one.to);
  std::vector<stretch> whole = targets;
  auto take = [&](query rows) {
    while (rows.step()) {
      const stretch span{rows.integer(0), std::max(after, rows.integer(1) - 1), rows.integer(2)};
      if (span.from >= span.to) continue;
      if (auto found = named.find(span.room); found != named.end()) without(found->second, span, whole);
      else whole.push_back(span);
    }
  };
  if (only)
    take(db_.ask("SELECT room, since, until FROM span WHERE room = ? AND server = ? AND until > ?", *only, server_,
                 after));
  else
    take(db_.ask("SELECT room, since, until FROM span INDEXED BY span_by_server WHERE server = ? AND until > ?",
                 server_, after));
  std::vector<closed_interval> intervals;
  {
    auto rows = db_.ask("SELECT from_position, to_position FROM closed WHERE server = ? AND to_position > ? "
                        "ORDER BY from_position",
                        server_, after);
    while (rows.step())
      intervals.push_back({rows.integer(0), rows.integer(1)});
  }
  std::map<std::pair<row_id, int>, std::size_t> places;
  for (auto one : cut_at(whole, intervals)) {
    // Whom an event names by itself gets it whatever else was missed: it may not be in the room, and can't backfill.
    if (one.target) one.interval = -1;
    auto [place, fresh] = places.try_emplace({one.room, one.interval}, rooms_.size());
    if (fresh) rooms_.push_back({one.room, one.interval >= 0, {}});
    rooms_[place->second].stretches.push_back(one);
  }
  for (auto& room : rooms_)
    std::sort(room.stretches.begin(), room.stretches.end(),
              [](const auto& a, const auto& b) { return a.from > b.from; });
}

position owed_stretches::next(std::size_t which, position after) {
  position first = 0;
  for (const auto& one : rooms_[which].stretches) {
    if (one.to <= after) continue;
    auto pos = one.target ? one.to : next_above(one, after);
    if (pos != 0 && (first == 0 || pos < first)) first = pos;
  }
  return first;
}

position owed_stretches::first_kept(std::size_t which) {
  auto [known, fresh] = first_kept_.try_emplace(which, 0);
  if (fresh && rooms_[which].in_interval) known->second = cutoff(rooms_[which]);
  return known->second;
}

/// Position of the K-th newest owed event of the room, if there are more than K; else 0.
position owed_stretches::cutoff(const owed_room& room) {
  if (newest_kept_ <= 0) return std::numeric_limits<position>::max();
  if (room.stretches.size() == 1 && !room.stretches[0].target) {
    const auto& only = room.stretches[0];
    auto beyond = db_.integer(nth_newest_sql, only.room, only.from, only.to, excluded_, newest_kept_);
    return beyond ? next_above(only, *beyond) : 0;
  }
  // Targets lie between or inside the spans' stretches of a room, so positions are gathered first and then ordered.
  std::vector<position> newest;
  for (const auto& one : room.stretches) {
    if (one.target) {
      newest.push_back(one.to);
      continue;
    }
    auto rows = db_.ask(newest_sql, one.room, one.from, one.to, excluded_, newest_kept_ + 1);
    while (rows.step())
      newest.push_back(rows.integer(0));
  }
  std::sort(newest.rbegin(), newest.rend());
  auto kept = static_cast<std::size_t>(newest_kept_);
  return newest.size() > kept ? newest[kept - 1] : 0;
}

position owed_stretches::next_above(const stretch& where, position after) {
  return db_.integer(next_sql, where.room, std::max(where.from, after), where.to, excluded_).value_or(0);
}

std::int64_t owed_stretches::count(const owed_room& room, position upto, std::int64_t at_most) {
  std::int64_t events = 0;
  for (const auto& one : room.stretches) {
    auto to = std::min(one.to, upto);
    if (events >= at_most || one.from >= to) continue;
    events += one.target ? 1 : db_.integer(count_sql, one.room, one.from, to, excluded_, at_most - events).value_or(0);
  }
  return events;
}

std::vector<position> owed_stretches::let_go(position through) {
  std::vector<position> all;
  for (auto [which, first] : first_kept_) {
    if (first == 0) continue;
    for (const auto& one : rooms_[which].stretches) {
      const auto to = std::min({one.to, first - 1, through});
      if (one.from >= to) continue;
      auto rows = db_.ask(newest_sql, one.room, one.from, to, excluded_, std::numeric_limits<std::int64_t>::max());
      while (rows.step())
        all.push_back(rows.integer(0));
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::int64_t owed_stretches::total(std::size_t which) {
  const auto all = std::numeric_limits<position>::max();
  return count(rooms_[which], all, all);
}

std::int64_t owed_stretches::kept(std::size_t which) {
  const auto all = std::numeric_limits<position>::max();
  return count(rooms_[which], all, rooms_[which].in_interval ? std::max<std::int64_t>(newest_kept_, 0) : all);
}

} // namespace ranvier::storage
