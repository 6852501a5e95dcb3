#include "actors/admission.hpp"

#include <algorithm>
#include <cmath>

namespace ranvier {

void fair_queue::push(const std::string& destination, ticket id) {
  auto& line = waiting_[destination];
  if (line.empty()) turns_.push_back(destination);
  line.push_back(id);
  ++size_;
}

fair_queue::ticket fair_queue::pop() {
  for (;;) {
    auto name = std::move(turns_.front());
    turns_.pop_front();
    auto it = waiting_.find(name);
    if (it == waiting_.end()) continue;
    auto id = it->second.front();
    it->second.pop_front();
    --size_;
    if (it->second.empty()) waiting_.erase(it);
    else turns_.push_back(std::move(name));
    return id;
  }
}

void fair_queue::remove(const std::string& destination, ticket id) {
  auto it = waiting_.find(destination);
  if (it == waiting_.end()) return;
  auto at = std::find(it->second.begin(), it->second.end(), id);
  if (at == it->second.end()) return;
  it->second.erase(at);
  --size_;
  if (!it->second.empty()) return;
  waiting_.erase(it);
  // Its turn goes too: else one that comes back again and again would have many turns.
  if (auto turn = std::find(turns_.begin(), turns_.end(), destination); turn != turns_.end()) turns_.erase(turn);
}

admission::admission(admission_limits limits, std::function<int(const std::string&)> open_connections)
    : limits_(limits)
    , open_connections_(std::move(open_connections)) {
  limits_.max_in_flight = std::max<std::int64_t>(limits_.max_in_flight, 1);
  // Burst and refill together stay below the limit in every second, wherever that second begins.
  double rate = std::max<double>(static_cast<double>(limits_.max_new_connections_per_second), 1);
  burst_ = std::max(1.0, std::floor(rate / 10));
  per_ms_ = std::max(rate - burst_, rate / 2) / 1000;
  tokens_ = burst_;
}

std::int64_t admission::share(kind half) const {
  auto for_quick = limits_.max_in_flight / 2;
  return half == quick ? for_quick : limits_.max_in_flight - for_quick;
}

std::size_t admission::waiting() const { return warm_[0].size() + warm_[1].size() + cold_[0].size() + cold_[1].size(); }

void admission::add(request what) {
  auto& p = peers_[what.destination];
  ++p.entries;
  entry e;
  e.half = p.was_quick && !what.probe ? quick : other;
  e.what = std::move(what);
  auto id = e.what.id;
  enqueue(entries_.insert_or_assign(id, std::move(e)).first->second);
}

void admission::enqueue(entry& e) {
  const auto& name = e.what.destination;
  e.warm_queue = has_idle_connection(name);
  (e.warm_queue ? warm_ : cold_)[e.half].push(name, e.what.id);
}

bool admission::has_idle_connection(const std::string& destination) {
  auto it = closing_.find(destination);
  return open_connections_(destination) - (it == closing_.end() ? 0 : it->second) > peers_[destination].running;
}

bool admission::may_connect() const {
  return tokens_ >= 1 && static_cast<std::int64_t>(young_.size()) < limits_.max_young_handshakes;
}

bool admission::startable(kind half) const {
  return warm_[half].size() > 0 || (cold_[half].size() > 0 && may_connect());
}

bool admission::start_one(kind half, std::int64_t now, orders& out) {
  while (startable(half)) {
    bool from_warm = warm_[half].size() > 0 && !(cold_next_[half] && cold_[half].size() > 0 && may_connect());
    auto& e = entries_.at((from_warm ? warm_ : cold_)[half].pop());
    auto& p = peers_[e.what.destination];
    bool warm = has_idle_connection(e.what.destination);
    if (!warm && !may_connect()) { // its connection went while it waited
      e.warm_queue = false;
      cold_[half].push(e.what.destination, e.what.id);
      continue;
    }
    if (!warm) {
      tokens_ -= 1;
      e.paid = true;
      young_.emplace(now, e.what.id);
    }
    cold_next_[half] = from_warm;
    e.running = true;
    e.started = now;
    ++p.running;
    ++count_[half];
    running_.insert(e.what.id);
    if (half == quick) quick_started_.emplace(now, e.what.id);
    else make_cuttable(e);
    out.start.push_back(e.what.id);
    return true;
  }
  return false;
}

bool admission::start_any(std::int64_t now, orders& out) {
  if (static_cast<std::int64_t>(running_.size()) >= limits_.max_in_flight) return false;
  for (auto half : {quick, other})
    if (count_[half] < share(half) && start_one(half, now, out)) return true;
  // Nobody who may claim a slot of their own half waits: either may borrow.
  return start_one(quick, now, out) || start_one(other, now, out);
}

void admission::demote(std::int64_t now) {
  while (!quick_started_.empty() && quick_started_.begin()->first + quick_ms <= now) {
    auto id = quick_started_.begin()->second;
    quick_started_.erase(quick_started_.begin());
    auto& e = entries_.at(id);
    e.half = other;
    --count_[quick];
    ++count_[other];
    make_cuttable(e);
  }
}

void admission::make_cuttable(entry& e) {
  if (!e.what.repeatable) return;
  e.due = e.started + e.patience_ms;
  other_started_.emplace(e.started, e.what.id);
  // With all the patience that it may have, its own timeout ends it, as a failure: else it would be cut for ever.
  if (e.patience_ms < e.what.timeout_ms) other_due_.emplace(e.due, e.what.id);
}

bool admission::cut_one(std::int64_t now, orders& out) {
  bool quick_claims = startable(quick) && count_[quick] < share(quick);
  if (!quick_claims && !startable(other)) return false;
  ticket victim = 0;
  bool impatient = !other_due_.empty() && other_due_.begin()->first <= now;
  if (impatient) {
    victim = other_due_.begin()->second;
  } else if (quick_claims && count_[other] > share(other)) {
    // Borrowed slots go back at once to those whose half it is: of those that had their second, the one that has
    // waited least loses least.
    auto it = other_started_.upper_bound({now - first_patience_ms, ~ticket{0}});
    if (it == other_started_.begin()) return false;
    victim = std::prev(it)->second;
  } else return false;
  auto& e = entries_.at(victim);
  leave_slot(e);
  ++closing_[e.what.destination]; // it is open until our caller has read what we say
  e.patience_ms = std::min(e.patience_ms * 2, e.what.timeout_ms);
  out.cut.push_back(victim);
  enqueue(e);
  return true;
}

admission::orders admission::next(std::int64_t now) {
  orders out;
  closing_.clear();
  refill(now);
  demote(now);
  while (!young_.empty() && young_.begin()->first + young_handshake_ms <= now)
    young_.erase(young_.begin());
  if (waiting() > 0) do
      while (start_any(now, out)) {
      }
    while (static_cast<std::int64_t>(running_.size()) >= limits_.max_in_flight && cut_one(now, out));
  sweep(now);
  return out;
}

void admission::leave_slot(entry& e) {
  auto id = e.what.id;
  quick_started_.erase({e.started, id});
  other_started_.erase({e.started, id});
  other_due_.erase({e.due, id});
  young_.erase({e.started, id});
  running_.erase(id);
  --count_[e.half];
  --peers_[e.what.destination].running;
  e.running = e.paid = false;
  e.half = other;
}

void admission::connected(ticket id) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  auto& e = it->second;
  young_.erase({e.started, id});
  if (!e.paid) return;
  e.paid = false;
  tokens_ = std::min(burst_, tokens_ + 1);
}

void admission::opened_socket(ticket id) {
  auto it = entries_.find(id);
  if (it != entries_.end() && it->second.paid) it->second.paid = false;
  else tokens_ -= 1;
}

void admission::finished(ticket id, bool answered, std::int64_t now) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  auto& e = it->second;
  auto& p = peers_[e.what.destination];
  p.last = now;
  if (e.running) {
    p.was_quick = answered && now - e.started < quick_ms;
    leave_slot(e);
  } else (e.warm_queue ? warm_ : cold_)[e.half].remove(e.what.destination, id);
  if (--p.entries == 0 && !p.was_quick) peers_.erase(e.what.destination);
  entries_.erase(it);
}

void admission::refill(std::int64_t now) {
  if (refilled_ == 0) refilled_ = now;
  tokens_ = std::min(burst_, tokens_ + static_cast<double>(now - refilled_) * per_ms_);
  refilled_ = now;
}

void admission::sweep(std::int64_t now) {
  if (now - swept_ < remember_quick_ms / 10) return;
  swept_ = now;
  std::erase_if(peers_,
                [&](const auto& x) { return x.second.entries == 0 && x.second.last + remember_quick_ms <= now; });
}

std::int64_t admission::next_moment(std::int64_t now) const {
  if (waiting() == 0) return -1;
  std::int64_t at = -1;
  auto sooner = [&](std::int64_t t) { at = at < 0 ? std::max(t, now) : std::min(at, std::max(t, now)); };
  if (static_cast<std::int64_t>(running_.size()) < limits_.max_in_flight) {
    if (tokens_ < 1) sooner(now + static_cast<std::int64_t>(std::ceil((1 - tokens_) / per_ms_)));
    else if (!young_.empty()) sooner(young_.begin()->first + young_handshake_ms);
    return at < 0 ? now : at;
  }
  // What is cut later is cut by these moments; one that is due but may not be cut has to wait for tokens.
  if (tokens_ < 1) sooner(now + static_cast<std::int64_t>(std::ceil((1 - tokens_) / per_ms_)));
  if (!quick_started_.empty()) sooner(quick_started_.begin()->first + quick_ms);
  if (auto it = other_due_.upper_bound({now, ~ticket{0}}); it != other_due_.end()) sooner(it->first);
  if (auto it = other_started_.upper_bound({now - first_patience_ms, ~ticket{0}}); it != other_started_.end())
    sooner(it->first + first_patience_ms);
  if (!young_.empty()) sooner(young_.begin()->first + young_handshake_ms);
  return at;
}

} // namespace ranvier
