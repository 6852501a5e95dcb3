#include "storage/compaction.hpp"

#include "storage/extra_store.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {
/// The name of a forgotten room stays as long as the ids of its events.
constexpr std::int64_t remember_rooms_ms = 7LL * 86'400'000;
} // namespace

bool compaction::step(const ages& limits) {
  now_ms_ = limits.now_ms;
  if (phase_ == phase::idle) {
    if (!due_) return false;
    due_ = false;
    ++pass_;
    room_ = 0;
    in_room_ = false;
    named_after_ = 0;
    span_after_ = {};
    forgotten_after_ = 0;
    phase_ = phase::rooms;
  }
  budget_rows_ = how_.rows;
  budget_rooms_ = how_.rooms;
  while (phase_ != phase::idle && !go_on(limits))
    phase_ = static_cast<phase>((static_cast<int>(phase_) + 1) % phases);
  return phase_ != phase::idle;
}

/// True if there is more to do in this phase; else the next one begins in the same step.
bool compaction::go_on(const ages& limits) {
  switch (phase_) {
  case phase::idle:
    return false;
  case phase::rooms:
    return rooms_step();
  case phase::named:
    return named_step();
  case phase::spans:
    return spans_step(limits);
  case phase::forgotten:
    return forgotten_step();
  case phase::ages:
    return ages_step(limits);
  }
  return false;
}

/// Rooms that have events, in order of their numbers.
bool compaction::rooms_step() {
  while (budget_rows_ > 0 && budget_rooms_ > 0) {
    if (!in_room_ && !begin_room()) {
      std::erase_if(visits_, [&](const auto& one) { return one.second.pass != pass_; });
      return false;
    }
    if (in_room_ && !work_on_room()) end_room();
  }
  return true;
}

/// The next room that has events. It is passed over while a fruitless look at it, which took long, is not long ago and
/// nothing new was logged in it.
bool compaction::begin_room() {
  --budget_rooms_;
  row_id room = 0;
  position latest = 0, upto = 0;
  {
    auto row = db_.ask("SELECT room, (SELECT latest FROM room WHERE id = p.room), (SELECT max(position) FROM pdu q "
                       "INDEXED BY pdu_by_room WHERE q.explicit = 0 AND q.room = p.room) "
                       "FROM pdu p INDEXED BY pdu_by_room WHERE explicit = 0 AND room > ? ORDER BY room LIMIT 1",
                       room_);
    if (!row.step()) return false;
    room = row.integer(0);
    latest = row.integer(1);
    upto = row.integer(2);
  }
  room_ = room;
  auto& known = visits_[room];
  known.pass = pass_;
  if (known.latest == latest && pass_ < known.due) return true;
  known.latest = latest;
  needs_ = find_needs(db_, room, upto, how_.newest_kept);
  gaps_ = gaps_between(needs_.kept, upto);
  gap_ = 0;
  place_ = gaps_.empty() ? 0 : gaps_[0].first;
  among_excluding_ = fruitful_ = false;
  in_room_ = true;
  return true;
}

void compaction::end_room() {
  in_room_ = false;
  auto& known = visits_[room_];
  const bool dear = needs_.looked > how_.wide_room;
  known.wait = fruitful_ || !dear ? 0 : std::min(how_.longest_wait, std::max<std::uint64_t>(1, known.wait * 2));
  known.due = pass_ + 1 + known.wait;
  needs_ = {};
  gaps_.clear();
}

/// Deletes some of what nobody needs: first in the stretches that nobody needs at all, then among the events that
/// exclude somebody, since those who need the stretch may not need them.
bool compaction::work_on_room() {
  std::vector<std::pair<position, std::string>> gone;
  auto take = [&](query rows, bool judged) {
    std::size_t looked = 0;
    for (; rows.step(); ++looked) {
      place_ = rows.integer(0);
      const auto exclude = rows.text(1);
      const bool needed = judged && std::any_of(needs_.kept.begin(), needs_.kept.end(),
                                                [&](const room_need& one) { return concerns(one, place_, exclude); });
      if (!needed) gone.emplace_back(place_, exclude);
    }
    return looked;
  };
  const auto limit = static_cast<std::int64_t>(budget_rows_);
  std::size_t looked = 0;
  bool more = true;
  if (!among_excluding_) {
    if (gap_ < gaps_.size()) {
      looked = take(db_.ask("SELECT position, exclude FROM pdu p INDEXED BY pdu_by_room WHERE explicit = 0 "
                            "AND room = ? AND position > ? AND position <= ? AND NOT EXISTS (SELECT 1 FROM target t "
                            "INDEXED BY target_by_room WHERE t.room = p.room AND t.position = p.position) "
                            "ORDER BY position LIMIT ?",
                            room_, place_, gaps_[gap_].second, limit),
                    false);
      if (looked < budget_rows_ && ++gap_ < gaps_.size()) place_ = gaps_[gap_].first;
    } else {
      among_excluding_ = true;
      place_ = 0;
      more = needs_.excludes;
    }
  } else {
    looked = take(db_.ask("SELECT position, exclude FROM pdu p INDEXED BY pdu_excluding WHERE explicit = 0 "
                          "AND exclude IS NOT NULL AND room = ? AND position > ? AND position <= ? AND NOT EXISTS "
                          "(SELECT 1 FROM target t INDEXED BY target_by_room WHERE t.room = p.room "
                          "AND t.position = p.position) ORDER BY position LIMIT ?",
                          room_, place_, needs_.upto, limit),
                  true);
    more = looked >= budget_rows_;
  }
  budget_rows_ -= std::min(budget_rows_, looked);
  if (!gone.empty()) delete_events(gone);
  return more;
}

/// Each event's id stays remembered. Events that rule K let go of are counted with their servers, as far as those
/// haven't passed them since.
void compaction::delete_events(const std::vector<std::pair<position, std::string>>& events) {
  fruitful_ = true;
  for (auto& one : needs_.let_go) {
    one.from = std::max(one.from, db_.integer("SELECT pdu FROM cursor WHERE server = ?", one.server).value_or(0));
    // The room may have been forgotten since the needs were read: then what they let go of was counted.
    if (one.from < one.to && !db_.integer("SELECT 1 FROM span WHERE room = ? AND server = ? AND since <= ? "
                                          "AND until >= ?",
                                          room_, one.server, one.from + 1, one.to))
      one.to = one.from;
  }
  std::map<row_id, std::int64_t> let_go;
  for (const auto& [pos, exclude] : events) {
    log_.drop_event(pos, now_ms_);
    for (const auto& one : needs_.let_go)
      if (concerns(one, pos, exclude)) ++let_go[one.server];
  }
  for (auto [server, count] : let_go) {
    destinations_.count_let_go(server, count);
    done_.let_go += count;
  }
  done_.events += events.size();
}

/// Events with destinations of their own: they go when the last target has gone.
bool compaction::named_step() {
  std::vector<position> gone;
  std::size_t looked = 0;
  {
    auto rows =
        db_.ask("SELECT position, EXISTS (SELECT 1 FROM target t INDEXED BY target_by_room WHERE t.room = p.room "
                "AND t.position = p.position) OR EXISTS (SELECT 1 FROM partial_join j WHERE j.room = p.room "
                "AND (j.position < p.position OR (j.since > 0 AND j.since < p.position))) FROM pdu p INDEXED BY "
                "pdu_explicit WHERE explicit = 1 "
                "AND position > ? ORDER BY position LIMIT ?",
                named_after_, static_cast<std::int64_t>(how_.rows));
    for (; rows.step(); ++looked) {
      named_after_ = rows.integer(0);
      if (rows.integer(1) == 0) gone.push_back(named_after_);
    }
  }
  for (auto pos : gone)
    log_.drop_event(pos, now_ms_);
  done_.events += gone.size();
  return looked >= how_.rows;
}

bool compaction::spans_step(const ages& limits) {
  // Once for each horizon: it moves once an hour.
  if (limits.spans_before <= spans_done_before_) return false;
  done_.spans += roster_.drop_passed_spans(limits.spans_before, span_after_, how_.rows);
  if (!span_after_.over) return true;
  spans_done_before_ = limits.spans_before;
  return false;
}

/// Forgotten rooms whose last event has gone leave only their names, for a while.
bool compaction::forgotten_step() {
  std::vector<row_id> empty;
  std::size_t looked = 0;
  {
    auto rows = db_.ask("SELECT id, EXISTS (SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = id) "
                        "OR EXISTS (SELECT 1 FROM target WHERE target.room = id) "
                        "FROM room INDEXED BY room_forgotten WHERE forgotten_ms <> 0 AND forgotten_ms > 0 AND id > ? "
                        "ORDER BY id LIMIT ?",
                        forgotten_after_, static_cast<std::int64_t>(how_.rooms));
    for (; rows.step(); ++looked) {
      forgotten_after_ = rows.integer(0);
      if (rows.integer(1) == 0) empty.push_back(forgotten_after_);
    }
  }
  for (auto room : empty)
    roster_.end_forgotten(room);
  done_.rooms += empty.size();
  if (looked >= how_.rooms) return true;
  roster_.drop_names_of_forgotten(now_ms_ - remember_rooms_ms, how_.rooms);
  return false;
}

bool compaction::ages_step(const ages& limits) {
  const auto at_most = static_cast<std::int64_t>(how_.rows);
  const auto messages = destinations_.expire_to_device(limits.to_device_before_ms, limits.now_ms, at_most);
  return messages >= at_most || log_.forget_seen(limits.ids_before_ms, at_most) >= at_most;
}

} // namespace ranvier::storage
