#include "storage/writer.hpp"

#include <iterator>

namespace ranvier::storage {

namespace {
constexpr std::int64_t hour_ms = 3'600'000, day_ms = 24 * hour_ms;
/// Ids of what was fed and of what the host was given are remembered this long after it went (API section 3.1).
constexpr std::int64_t remember_ids_ms = 7 * day_ms;
/// Answers to inbound transactions (DESIGN section 7).
constexpr std::int64_t remember_answers_ms = day_ms;
} // namespace

writer::writer(const writer_settings& settings)
    : db(settings.path, database::mode::write)
    , names(db)
    , log(db)
    , destinations(db)
    , roster(db, names, log, destinations)
    , feed(db, names, log, roster, destinations)
    , inbox(db, log, settings.stream_bytes)
    , keys(db) {
  transaction whole(db);
  inbox.set_consumers(settings.consumers);
  whole.commit();
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
    return failed.what();
  }
  entries.insert(entries.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return {};
}

writer::group_result writer::commit(const std::vector<job>& jobs) {
  group_result result;
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
  return result;
}

void writer::reload() {
  names.forget();
  roster.forget();
  try {
    log.reload();
    inbox.reload();
  } catch (const error&) {
    // A disk that can't be read now: what is in memory stays ahead of the file, which wastes numbers but repeats none.
  }
}

void writer::tidy(std::int64_t now_ms, const ages& limits) {
  log.forget_seen(now_ms - remember_ids_ms);
  inbox.forget_answers(now_ms - remember_answers_ms);
  destinations.expire_to_device(now_ms - limits.to_device_ms, now_ms);
  if (now_ms - horizon_taken_ms_ < hour_ms) return;
  // Only spans that ended before the last hour mark go: the event of a membership line may be fed some time after it.
  if (horizon_taken_ms_ != 0) roster.drop_passed_spans(horizon_);
  horizon_ = log.head();
  horizon_taken_ms_ = now_ms;
}

} // namespace ranvier::storage
