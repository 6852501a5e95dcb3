#include "storage/writer.hpp"

#include <algorithm>
#include <iterator>

namespace ranvier::storage {

namespace {
constexpr std::int64_t hour_ms = 3'600'000, day_ms = 24 * hour_ms;
/// Ids of what was fed and of what the host was given are remembered this long after it went (API section 3.1).
constexpr std::int64_t remember_ids_ms = 7 * day_ms;
/// Answers to inbound transactions (DESIGN section 7).
constexpr std::int64_t remember_answers_ms = day_ms;
/// Messages and ids that a heartbeat lets go of.
constexpr std::int64_t tidied_at_once = 1'000;
} // namespace

writer::writer(const writer_settings& settings)
    : db(settings.path, database::mode::write)
    , names(db)
    , log(db)
    , destinations(db)
    , roster(db, names, log, destinations)
    , feed(db, names, log, roster, destinations, devices, announcements)
    , inbox(db, log, settings.stream_bytes)
    , keys(db)
    , compact(db, destinations, roster, log, settings.compact)
    , devices(db, log, inbox, settings.display_names)
    , announcements(db, inbox)
    , lists(db, names, inbox, announcements, settings.devices_per_user)
    , joins(db, names, log, roster, devices, announcements) {
  joins.watch([this](const std::vector<std::string>& users, std::int64_t now_ms) { lists.distrust(users, now_ms); });
  roster.watch([this](const roster_change& what) {
    lists.roster_changed(what);
    announcements.roster_changed(what);
  });
  destinations.set_to_device_bound(settings.to_device_max_bytes);
  transaction whole(db);
  inbox.set_consumers(settings.consumers);
  const bool others = destinations.set_allowed(settings.servers, log.head());
  whole.commit();
  if (others) compact.wake();
}

std::string writer::attempt(const job& what, std::vector<log_entry>& entries) {
  auto head = log.head();
  auto inbox_mark = inbox.now();
  std::vector<log_entry> own;
  try {
    savepoint mine(db);
    what(*this, own);
    mine.release();
  } catch (const std::exception& failed) {
    log.rewind(head);
    inbox.rewind(inbox_mark);
    names.forget();
    roster.forget();
    destinations.forget();
    return failed.what();
  }
  entries.insert(entries.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return {};
}

writer::group_result writer::commit(const std::vector<job>& jobs) {
  group_result result;
  const auto head_before = log.head();
  try {
    transaction whole(db);
    for (const auto& one : jobs) {
      result.problems.push_back(attempt(one, result.entries));
      if (whole.lost()) throw error(result.problems.back());
    }
    log.save_head();
    whole.commit();
    result.committed = true;
  } catch (const std::exception& failed) {
    result.entries.clear();
    result.problems.assign(jobs.size(), failed.what());
    reload();
  }
  result.head = log.head();
  if (const bool moved = destinations.take_moved(); moved || result.head != head_before) compact.wake();
  return result;
}

void writer::reload() {
  names.forget();
  roster.forget();
  destinations.forget();
  try {
    log.reload();
    inbox.reload();
  } catch (const error&) {
    // A disk that can't be read now: what is in memory stays ahead of the file, which wastes numbers but repeats none.
  }
}

void writer::tidy(std::int64_t now_ms, const ages& limits) {
  inbox.forget_answers(now_ms - remember_answers_ms);
  devices.tidy(now_ms);
  lists.tidy(now_ms);
  announcements.forget(now_ms - limits.device_changes_ms);
  const auto messages = destinations.expire_to_device(now_ms - limits.to_device_ms, now_ms, tidied_at_once);
  const auto ids = log.forget_seen(now_ms - remember_ids_ms, tidied_at_once);
  if (std::max(messages, ids) >= tidied_at_once) compact.wake();
  if (now_ms - horizon_taken_ms_ < hour_ms) return;
  // Only spans that ended before the last hour mark go: the event of a membership line may be fed some time after it.
  if (horizon_taken_ms_ != 0 && horizon_ > old_spans_) {
    old_spans_ = horizon_;
    compact.wake();
  }
  horizon_ = log.head();
  horizon_taken_ms_ = now_ms;
}

void writer::compact_step(std::int64_t now_ms, const ages& limits) {
  compact.step({now_ms, now_ms - limits.to_device_ms, now_ms - remember_ids_ms, old_spans_});
}

} // namespace ranvier::storage
