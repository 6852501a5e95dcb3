#include "storage/owed_stretches.hpp"

#include <algorithm>

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

owed_stretches::owed_stretches(database& db, row_id server, std::string_view name, position after,
                               std::int64_t newest_kept)
    : db_(db)
    , server_(server)
    , excluded_("\n" + std::string(name) + "\n") {
  load(after);
  apply_rule(newest_kept);
}

void owed_stretches::load(position after) {
  std::vector<stretch> whole;
  {
    auto rows = db_.ask("SELECT room, since, until FROM span INDEXED BY span_by_server WHERE server = ? AND until > ?",
                        server_, after);
    while (rows.step()) {
      auto from = std::max(after, rows.integer(1) - 1);
      if (from < rows.integer(2)) whole.push_back({rows.integer(0), from, rows.integer(2)});
    }
  }
  {
    auto rows = db_.ask("SELECT room, position FROM target WHERE server = ? AND position > ?", server_, after);
    while (rows.step())
      whole.push_back({rows.integer(0), rows.integer(1) - 1, rows.integer(1), true});
  }
  std::vector<closed_interval> intervals;
  {
    auto rows = db_.ask("SELECT from_position, to_position FROM closed WHERE server = ? AND to_position > ? "
                        "ORDER BY from_position",
                        server_, after);
    while (rows.step())
      intervals.push_back({rows.integer(0), rows.integer(1)});
  }
  all_ = cut_at(whole, intervals);
}

void owed_stretches::apply_rule(std::int64_t newest_kept) {
  std::map<std::pair<row_id, int>, std::vector<stretch>> groups;
  for (const auto& one : all_) {
    if (one.interval < 0) kept_.push_back(one);
    else groups[{one.room, one.interval}].push_back(one);
  }
  for (auto& [key, group] : groups) {
    std::sort(group.begin(), group.end(), [](const auto& a, const auto& b) { return a.from > b.from; });
    auto first = cutoff(group, newest_kept);
    for (auto& one : group) {
      if (first == 0 || one.from >= first) {
        kept_.push_back(one);
        continue;
      }
      auto old = one;
      old.to = std::min(old.to, first - 1);
      if (old.from < old.to) let_go_.push_back(old);
      one.from = std::max(one.from, first - 1);
      if (one.from < one.to) kept_.push_back(one);
    }
  }
}

position owed_stretches::cutoff(const std::vector<stretch>& newest_first, std::int64_t newest_kept) {
  std::int64_t found = 0;
  position last = 0;
  // Targets lie between or inside the spans' stretches of a room, so positions are gathered first and then ordered.
  std::vector<position> newest;
  for (const auto& one : newest_first) {
    if (one.target) {
      newest.push_back(one.to);
      continue;
    }
    auto rows =
        db_.ask("SELECT position FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ? AND position > ? "
                "AND position <= ? AND (exclude IS NULL OR instr(exclude, ?) = 0) ORDER BY position DESC LIMIT ?",
                one.room, one.from, one.to, excluded_, newest_kept + 1);
    while (rows.step())
      newest.push_back(rows.integer(0));
  }
  std::sort(newest.rbegin(), newest.rend());
  for (auto pos : newest) {
    if (found == newest_kept) return last == 0 ? pos + 1 : last;
    last = pos;
    ++found;
  }
  return 0;
}

position owed_stretches::next(const stretch& where, position after) {
  if (where.target) return where.to > after ? where.to : 0;
  return db_
      .integer("SELECT position FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ? AND position > ? "
               "AND position <= ? AND (exclude IS NULL OR instr(exclude, ?) = 0) ORDER BY position LIMIT 1",
               where.room, std::max(where.from, after), where.to, excluded_)
      .value_or(0);
}

std::int64_t owed_stretches::count(const stretch& where) {
  if (where.from >= where.to) return 0;
  if (where.target) return 1;
  return db_
      .integer("SELECT count(*) FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ? AND position > ? "
               "AND position <= ? AND (exclude IS NULL OR instr(exclude, ?) = 0)",
               where.room, where.from, where.to, excluded_)
      .value_or(0);
}

} // namespace ranvier::storage
