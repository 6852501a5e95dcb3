#include "tests/simulation/run.hpp"

#include <algorithm>

// What must hold after a run: DESIGN section 9, judged by the model and by what the peers saw.

namespace ranvier::sim {

namespace {

constexpr std::int64_t slowest_for_the_well_ms = 10 * second;
constexpr std::int64_t slowest_among_tarpits_ms = 30 * second;
constexpr std::int64_t recut_after_ms = hour; ///< a frozen transaction is cut anew after this: then items may repeat
constexpr std::int64_t ack_written_ms = 3 * second; ///< acks are gathered for a second, then committed

} // namespace

void run::check_everything() {
  for (auto& [name, p] : outside_.peers) {
    tally_.attempts += p.attempts;
    tally_.transactions += p.transactions.size();
    check_events(p);
    check_order(p);
    check_repeats(p);
    check_messages(p);
    if (p.always_well) check_speed(p);
  }
  check_our_lists();
  check_their_lists();
  check_fetches();
  check_promises();
  outside_.check_overdue(now_ms_);
  check_idle();
}

/// Nothing is left to do: no actor lives on, and nobody polls (guarantee 5).
void run::check_idle() {
  if (const auto left = life_->memory().destinations; left > 0)
    outside_.breach(std::to_string(left) + " destinations haven't retired although nothing waits");
  const auto before = tally_.handled;
  tally_.handled += life_->time().advance_to(now_ms_ + hour);
  now_ms_ = life_->time().now_ms();
  constexpr std::size_t heartbeats = 60 * 3; // one a minute: timer, word to the ledger, commit
  if (tally_.handled - before > heartbeats + 10)
    outside_.breach("an idle engine handled " + std::to_string(tally_.handled - before) + " messages in an hour");
}

bool run::may(const std::string& server, const std::string& event) const {
  return std::any_of(models_.begin(), models_.end(), [&](const model& m) { return m.may(server, event); });
}

bool run::may_message(const std::string& server, const std::string& message) {
  return std::any_of(models_.begin(), models_.end(), [&](model& m) { return m.messages(server).count(message) > 0; });
}

/// Guarantee 1, and nobody gets what isn't meant for it.
void run::check_events(peer& p) {
  std::vector<model::owed> missing;
  for (const auto& one : now_model().must(p.name)) {
    ++tally_.owed_events;
    if (p.events.count(one.event) > 0) ++tally_.delivered;
    else missing.push_back(one);
  }
  check_missing(p, missing);
  for (const auto& [event, receipts] : p.events)
    if (!may(p.name, event)) outside_.breach(p.name + " got " + event + ", which isn't meant for it", p.name, event);
  tally_.let_go += missing.size();
  check_stored(p, missing.size());
}

/// An event may be missing only if it was logged while the gate was closed, with K newer ones of its room behind it
/// that were logged in the same closing (DESIGN section 4, catch-up).
void run::check_missing(const peer& p, const std::vector<model::owed>& lost) {
  if (lost.empty()) return;
  auto& m = now_model();
  // By room, what counts against K: what it was owed, and what it got that it needn't have. Sorted by place in the log,
  // and so by the moment of the feed too.
  std::map<std::string, std::vector<std::pair<std::size_t, std::int64_t>>> counted;
  const auto count = [&](const std::string& event) {
    counted[m.room_of(event)].emplace_back(m.place_of(event), m.fed_ms(event));
  };
  for (const auto& one : m.must(p.name))
    count(one.event);
  for (const auto& [event, receipts] : p.events)
    if (m.knows(event) && m.may(p.name, event)) count(event);
  for (auto& [room, list] : counted) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  for (const auto& one : lost) {
    const auto what = p.name + " lacks " + one.event + " of " + one.room + ", fed at " + std::to_string(one.fed_ms);
    // What the peer took after the backup the engine forgot with the newer database: its gate is as it was.
    const auto success_after =
        std::find_if(std::lower_bound(p.successes.begin(), p.successes.end(), one.fed_ms), p.successes.end(),
                     [this](auto at) { return !forgotten(at); });
    const auto reopened = success_after == p.successes.end() ? now_ms_ : *success_after;
    const auto success_before = success_after == p.successes.begin() ? 0 : *std::prev(success_after);
    const auto failure = std::upper_bound(p.failures.begin(), p.failures.end(), success_before);
    const bool old_gate = std::any_of(replaced_ms_.begin(), replaced_ms_.end(),
                                      [&](auto at) { return at >= success_before && at <= reopened; });
    if ((failure == p.failures.end() || *failure > reopened) && !old_gate) {
      outside_.breach(what + ", though it was never failing", p.name, one.event);
      continue;
    }
    const auto& list = counted[one.room];
    const auto first = std::upper_bound(list.begin(), list.end(), std::pair(m.place_of(one.event), now_ms_));
    const auto newer = std::count_if(first, list.end(), [&](const auto& x) { return x.second <= reopened; });
    if (newer < settings_.delivery.catch_up_events_per_room)
      outside_.breach(what + ", and only " + std::to_string(newer) + " newer ones were logged before its gate opened",
                      p.name, one.event);
  }
}

/// Guarantee 2: a room's events come in log order.
void run::check_order(const peer& p) {
  std::map<std::pair<int, std::string>, std::size_t> last;
  for (const auto& [event, generation] : p.order) {
    const auto& m = models_.at(static_cast<std::size_t>(generation) - 1);
    if (!m.knows(event) || !m.may(p.name, event)) continue;
    const auto place = m.place_of(event);
    auto& before = last[{generation, m.room_of(event)}];
    if (place + 1 <= before)
      outside_.breach(p.name + " got " + event + " after a newer one of its room", p.name, event);
    before = std::max(before, place + 1);
  }
}

/// Guarantee 4: what was acked never comes again, over kills too, nor if it is fed again. What wasn't comes in another
/// transaction only after a kill, or when a frozen one was cut anew.
void run::check_repeats(const peer& p) {
  const auto died_soon_after = [&](std::int64_t at) {
    return std::any_of(down_.begin(), down_.end(),
                       [&](const auto& d) { return d.first >= at && d.first - at < ack_written_ms; });
  };
  const auto judge = [&](const std::string& what, const std::vector<receipt>& list) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      const auto& before = list[i - 1];
      ++tally_.repeated;
      if (list[i].generation != before.generation) continue;
      const auto acked = p.transactions[before.transaction].acked_ms;
      const auto apart = list[i].at_ms - before.at_ms;
      if (acked >= 0 && acked < list[i].at_ms && !died_soon_after(acked))
        outside_.breach(p.name + " got " + what + " again, which it had acked " +
                            std::to_string((list[i].at_ms - acked) / second) + " s before",
                        p.name, what);
      else if (list[i].life == before.life && apart < recut_after_ms)
        outside_.breach(p.name + " got " + what + " twice in one life, " + std::to_string(apart) + " ms apart", p.name,
                        what);
    }
  };
  for (const auto& [event, list] : p.events)
    judge(event, list);
  for (const auto& [message, list] : p.messages)
    judge(message, list);
}

void run::check_messages(peer& p) {
  for (const auto& message : now_model().messages(p.name)) {
    ++tally_.messages;
    if (p.messages.count(message) == 0)
      outside_.breach(p.name + " lacks to-device message " + message, p.name, message);
  }
  for (const auto& [message, list] : p.messages)
    if (!may_message(p.name, message))
      outside_.breach(p.name + " got to-device message " + message + ", which isn't meant for it", p.name, message);
}

/// Guarantee 6: the others' faults delay nobody who is well.
void run::check_speed(peer& p) {
  const auto most = plan_.tarpits > 0 ? slowest_among_tarpits_ms : slowest_for_the_well_ms;
  for (const auto& one : now_model().must(p.name)) {
    const auto got = p.events.find(one.event);
    if (got == p.events.end()) continue;
    auto took = got->second.front().at_ms - one.fed_ms;
    for (const auto& [from, to] : down_)
      if (from <= got->second.front().at_ms && to >= one.fed_ms) took -= to - std::max(from, one.fed_ms);
    tally_.slowest_ms = std::max(tally_.slowest_ms, took);
    if (took > most)
      outside_.breach(p.name + ", which is always well, got " + one.event + " only after " + std::to_string(took) +
                          " ms",
                      p.name, one.event);
  }
}

/// Whoever is back, and was seen to be back, has everything soon.
void run::check_promises() {
  for (const auto& one : outside_.promises) {
    const bool disturbed = std::any_of(down_.begin(), down_.end(), [&](const auto& d) {
      return d.first <= one.by_ms && d.second >= one.from_ms - minute;
    });
    if (disturbed) continue;
    ++tally_.promises;
    auto& p = outside_.peers.at(one.server);
    for (const auto& owed : now_model().must(one.server)) {
      const auto got = p.events.find(owed.event);
      if (owed.fed_ms > one.from_ms || got == p.events.end()) continue;
      if (got->second.front().at_ms <= one.by_ms) continue;
      outside_.breach(one.server + " got " + owed.event + " " +
                          std::to_string((got->second.front().at_ms - one.from_ms) / second) + " s after " + one.why,
                      one.server, owed.event);
      break;
    }
  }
}

/// What was let go is counted, and the cursor says that nothing is left.
void run::check_stored(peer& p, std::size_t missing) {
  const auto row = life_->row_of(p.name);
  // What it needn't have may be let go too, and so may what it took without our knowing, which isn't missing.
  std::size_t most = 0;
  for (const auto& event : now_model().may(p.name))
    most += p.events.count(event) == 0 ? 1 : 0;
  for (const auto& one : p.transactions)
    most += one.acked_ms < 0 ? one.events : 0;
  const bool too_many = row.let_go > static_cast<std::int64_t>(most) && replaced_ms_.empty();
  if (row.let_go < static_cast<std::int64_t>(missing) || too_many)
    outside_.breach(p.name + " counts " + std::to_string(row.let_go) + " as let go, " + std::to_string(missing) +
                        " are missing" + (most > missing ? ", at most " + std::to_string(most) + " could be" : ""),
                    p.name);
  const auto owed = life_->owed(p.name, row.at);
  if (owed.pdus + owed.to_device > 0)
    outside_.breach(p.name + " is still owed " + std::to_string(owed.pdus) + " events and " +
                        std::to_string(owed.to_device) + " messages",
                    p.name);
  if (row.gate.push.closed && owed.pdus > 0) outside_.breach(p.name + " is well, but its gate is still closed", p.name);
}

} // namespace ranvier::sim
