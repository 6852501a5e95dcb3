#include "storage/room_needs.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace ranvier::storage {

namespace {

constexpr position no_end = std::numeric_limits<position>::max();

/// A server that hasn't passed all of the room's events: one row for each of its stretches and closed intervals.
struct behind_row {
  row_id server;
  position since, until, cursor;
  bool has_interval;
  position closed_from, closed_to;
};

class finder {
public:
  finder(database& db, row_id room, position upto, std::int64_t newest_kept)
      : db_(db)
      , newest_kept_(newest_kept) {
    out_.room = room;
    out_.upto = upto;
    out_.excludes = db_.integer("SELECT 1 FROM pdu INDEXED BY pdu_excluding WHERE explicit = 0 "
                                "AND exclude IS NOT NULL AND room = ? LIMIT 1",
                                room)
                        .has_value();
  }

  room_needs find() {
    partial_join();
    extras();
    read_named();
    const auto rows = read_behind();
    for (std::size_t at = 0; at < rows.size();) {
      auto end = at;
      while (end < rows.size() && rows[end].server == rows[at].server)
        ++end;
      judge(rows, at, end);
      at = end;
    }
    return std::move(out_);
  }

private:
  std::string name_of(row_id server) {
    if (!out_.excludes) return {};
    return "\n" + db_.text("SELECT name FROM server WHERE id = ?", server).value_or("") + "\n";
  }
  void keep(row_id server, position from, position to, const std::string& name) {
    to = std::min(to, out_.upto);
    if (from < to) out_.kept.push_back({server, from, to, name});
  }
  void let_go(row_id server, position from, position to, const std::string& name) {
    to = std::min(to, out_.upto);
    if (from < to) out_.let_go.push_back({server, from, to, name});
  }

  /// Nothing of a partially joined room goes since the join: who else must get it is known only at its end.
  void partial_join() {
    auto row = db_.ask("SELECT position, since FROM partial_join WHERE room = ?", out_.room);
    if (!row.step()) return;
    auto since = row.integer(1) > 0 ? std::min(row.integer(0), row.integer(1)) : row.integer(0);
    keep(0, since, out_.upto, {});
  }
  void extras() {
    auto rows = db_.ask("SELECT server, from_position, to_position FROM extra INDEXED BY extra_by_room WHERE room = ?",
                        out_.room);
    for (; rows.step(); ++out_.looked)
      keep(rows.integer(0), rows.integer(1), rows.integer(2), name_of(rows.integer(0)));
  }
  void read_named() {
    auto rows = db_.ask("SELECT DISTINCT server FROM target INDEXED BY target_by_room WHERE room = ?", out_.room);
    for (; rows.step(); ++out_.looked)
      named_.insert(rows.integer(0));
  }

  std::vector<behind_row> read_behind() {
    std::vector<behind_row> out;
    auto rows = db_.ask("SELECT s.server, s.since, s.until, coalesce(c.pdu, 0), k.from_position, k.to_position "
                        "FROM span s LEFT JOIN cursor c ON c.server = s.server LEFT JOIN closed k "
                        "ON k.server = s.server AND k.to_position > coalesce(c.pdu, 0) WHERE s.room = ?",
                        out_.room);
    for (; rows.step(); ++out_.looked) {
      behind_row one{rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3),
                     !rows.null(4),   rows.integer(4), rows.integer(5)};
      if (one.until > one.cursor && std::max(one.cursor, one.since - 1) < out_.upto) out.push_back(one);
    }
    return out;
  }

  void judge(const std::vector<behind_row>& rows, std::size_t at, std::size_t end) {
    const auto& first = rows[at];
    const auto name = name_of(first.server);
    if (!first.has_interval) {
      for (; at < end; ++at)
        keep(first.server, std::max(rows[at].cursor, rows[at].since - 1), rows[at].until, name);
      return;
    }
    const auto from = std::max(first.cursor, first.since - 1);
    const bool plain = end - at == 1 && !out_.excludes && newest_kept_ > 0 && first.until == no_end &&
                       first.closed_from <= from && first.closed_to == no_end && !named_.contains(first.server);
    if (plain) split(first.server, from, no_end, plain_cutoff(from), name);
    else ask(first.server, first.cursor, name);
  }
  /// What lies below `first_kept` is let go.
  void split(row_id server, position from, position to, position first_kept, const std::string& name) {
    keep(server, std::max(from, first_kept - 1), to, name);
    let_go(server, from, std::min(to, first_kept - 1), name);
  }
  void ask(row_id server, position cursor, const std::string& name) {
    const auto plain_name = db_.text("SELECT name FROM server WHERE id = ?", server).value_or("");
    owed_stretches owed(db_, server, plain_name, cursor, newest_kept_, out_.room);
    for (std::size_t which = 0; which < owed.size(); ++which) {
      const auto first_kept = owed.first_kept(which);
      for (const auto& one : owed.at(which).stretches) {
        ++out_.looked;
        if (!one.target) split(server, one.from, one.to, first_kept, name);
      }
    }
  }
  /// For a server whose gate has been closed since before `from`, and that was in the room all the time: the newest K
  /// of the room are the same for all such servers.
  position plain_cutoff(position from) {
    if (!cutoff_) {
      cutoff_.emplace(0, 0);
      auto rows = db_.ask("SELECT position FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ? "
                          "ORDER BY position DESC LIMIT 2 OFFSET ?",
                          out_.room, newest_kept_ - 1);
      if (rows.step()) cutoff_->first = rows.integer(0);
      if (rows.step()) cutoff_->second = rows.integer(0);
    }
    return cutoff_->second > from ? cutoff_->first : 0;
  }

  database& db_;
  std::int64_t newest_kept_;
  room_needs out_;
  std::set<row_id> named_;                              ///< servers that single events of the room name
  std::optional<std::pair<position, position>> cutoff_; ///< the K-th newest event and the one before it
};

} // namespace

std::vector<std::pair<position, position>> gaps_between(const std::vector<room_need>& kept, position upto) {
  std::vector<std::pair<position, position>> needed, gaps;
  for (const auto& one : kept)
    needed.emplace_back(one.from, one.to);
  std::sort(needed.begin(), needed.end());
  position free_from = 0;
  for (auto [from, to] : needed) {
    if (from > free_from) gaps.emplace_back(free_from, std::min(from, upto));
    free_from = std::max(free_from, to);
    if (free_from >= upto) return gaps;
  }
  gaps.emplace_back(free_from, upto);
  return gaps;
}

bool concerns(const room_need& one, position at, std::string_view exclude) {
  return at > one.from && at <= one.to &&
         (one.name.empty() || exclude.empty() || exclude.find(one.name) == std::string_view::npos);
}

room_needs find_needs(database& db, row_id room, position upto, std::int64_t newest_kept) {
  return finder(db, room, upto, newest_kept).find();
}

} // namespace ranvier::storage
