#include "tests/simulation/run.hpp"

#include <algorithm>

// What must hold after a run: DESIGN section 9, judged by the model and by what the peers saw.

namespace ranvier::sim {

namespace {

constexpr std::int64_t slowest_for_the_well_ms = 10 * second;
constexpr std::int64_t recut_after_ms = hour; ///< a frozen transaction is cut anew after this: then items may repeat

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
  // Nothing is left to do: no actor lives on, and nobody polls (guarantee 5).
  if (const auto left = life_->destinations(); left > 0)
    outside_.breach(std::to_string(left) + " destinations haven't retired although nothing waits");
  const auto before = tally_.handled;
  step_to(now_ms_ + hour);
  constexpr std::size_t heartbeats = 60 * 3; // one a minute: timer, word to the ledger, commit
  if (tally_.handled - before > heartbeats + 10)
    outside_.breach("an idle engine handled " + std::to_string(tally_.handled - before) + " messages in an hour");
}

/// Guarantee 1, and nobody gets what isn't meant for it.
void run::check_events(peer& p) {
  std::size_t missing = 0;
  for (const auto& one : model_.must(p.name)) {
    ++tally_.owed_events;
    if (p.events.count(one.event) > 0) {
      ++tally_.delivered;
      continue;
    }
    ++missing;
    check_missing(p, one);
  }
  for (const auto& [event, receipts] : p.events)
    if (!model_.may(p.name, event)) outside_.breach(p.name + " got " + event + ", which isn't meant for it");
  tally_.let_go += missing;
  check_stored(p, missing);
}

/// An event may be missing only if it was logged while the gate was closed, with K newer ones of its room behind it
/// that were logged in the same closing (DESIGN section 4, catch-up).
void run::check_missing(const peer& p, const model::owed& lost) {
  const auto what = p.name + " lacks " + lost.event + " of " + lost.room + ", fed at " + std::to_string(lost.fed_ms);
  const auto success_after = std::lower_bound(p.successes.begin(), p.successes.end(), lost.fed_ms);
  const auto reopened = success_after == p.successes.end() ? now_ms_ : *success_after;
  const auto success_before = success_after == p.successes.begin() ? 0 : *std::prev(success_after);
  const auto failure = std::upper_bound(p.failures.begin(), p.failures.end(), success_before);
  if (failure == p.failures.end() || *failure > reopened) {
    outside_.breach(what + ", though it was never failing");
    return;
  }
  std::set<std::string> newer;
  const auto count = [&](const std::string& event) {
    if (model_.room_of(event) == lost.room && model_.place_of(event) > model_.place_of(lost.event) &&
        model_.fed_ms(event) <= reopened)
      newer.insert(event);
  };
  for (const auto& one : model_.must(p.name))
    count(one.event);
  for (const auto& [event, receipts] : p.events) // those too that it needn't have got
    if (model_.may(p.name, event)) count(event);
  if (newer.size() < static_cast<std::size_t>(settings_.delivery.catch_up_events_per_room))
    outside_.breach(what + ", and only " + std::to_string(newer.size()) +
                    " newer ones were logged before its gate opened");
}

/// Guarantee 2: a room's events come in log order.
void run::check_order(const peer& p) {
  std::map<std::string, std::size_t> last;
  for (const auto& event : p.order) {
    if (!model_.may(p.name, event)) continue;
    const auto place = model_.place_of(event);
    auto& before = last[model_.room_of(event)];
    if (place + 1 <= before) outside_.breach(p.name + " got " + event + " after a newer one of its room");
    before = std::max(before, place + 1);
  }
}

/// Guarantee 4: an item comes again in another transaction only after a kill or when a frozen one was cut anew.
void run::check_repeats(const peer& p) {
  const auto judge = [&](const std::string& what, const std::vector<receipt>& list) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      ++tally_.repeated;
      if (list[i].life == list[i - 1].life && list[i].at_ms - list[i - 1].at_ms < recut_after_ms)
        outside_.breach(p.name + " got " + what + " twice in one life, " +
                        std::to_string(list[i].at_ms - list[i - 1].at_ms) + " ms apart");
    }
  };
  for (const auto& [event, list] : p.events)
    judge(event, list);
  for (const auto& [message, list] : p.messages)
    judge(message, list);
}

void run::check_messages(peer& p) {
  for (const auto& message : model_.messages(p.name)) {
    ++tally_.messages;
    if (p.messages.count(message) == 0) outside_.breach(p.name + " lacks to-device message " + message);
  }
  for (const auto& [message, list] : p.messages)
    if (model_.messages(p.name).count(message) == 0)
      outside_.breach(p.name + " got to-device message " + message + ", which isn't meant for it");
}

/// Guarantee 6: the others' faults delay nobody who is well.
void run::check_speed(peer& p) {
  for (const auto& one : model_.must(p.name)) {
    const auto got = p.events.find(one.event);
    if (got == p.events.end()) continue;
    auto took = got->second.front().at_ms - one.fed_ms;
    for (const auto& [from, to] : down_)
      if (from <= got->second.front().at_ms && to >= one.fed_ms) took -= to - std::max(from, one.fed_ms);
    tally_.slowest_ms = std::max(tally_.slowest_ms, took);
    if (took > slowest_for_the_well_ms)
      outside_.breach(p.name + ", which is always well, got " + one.event + " only after " + std::to_string(took) +
                      " ms");
  }
}

/// What was let go is counted, and the cursor says that nothing is left.
void run::check_stored(peer& p, std::size_t missing) {
  const auto row = life_->row_of(p.name);
  // What it needn't have may be let go too, and so may what it took without our knowing, which isn't missing.
  std::size_t most = 0;
  for (const auto& event : model_.may(p.name))
    most += p.events.count(event) == 0 ? 1 : 0;
  for (const auto& [transaction, events] : p.unanswered)
    most += events;
  if (row.let_go < static_cast<std::int64_t>(missing) || row.let_go > static_cast<std::int64_t>(most))
    outside_.breach(p.name + " counts " + std::to_string(row.let_go) + " as let go, " + std::to_string(missing) +
                    " are missing" + (most > missing ? ", at most " + std::to_string(most) + " could be" : ""));
  const auto owed = life_->owed(p.name, row.at);
  if (owed.pdus + owed.to_device > 0)
    outside_.breach(p.name + " is still owed " + std::to_string(owed.pdus) + " events and " +
                    std::to_string(owed.to_device) + " messages");
  if (row.gate.push.closed && owed.pdus > 0) outside_.breach(p.name + " is well, but its gate is still closed");
}

} // namespace ranvier::sim
