#include "actors/resyncs.hpp"

#include <algorithm>
#include <cmath>

namespace ranvier {

resyncs::resyncs(resync_limits limits, std::function<double()> uniform)
    : limits_(std::move(limits))
    , uniform_(std::move(uniform)) {}

// --- what is known --------------------------------------------------------------------------------------------------

resyncs::one& resyncs::of(const std::string& user) {
  auto [found, fresh] = users_.try_emplace(user);
  if (fresh) found->second.turn = ++turns_;
  return found->second;
}

void resyncs::set_stale(one& u, bool stale, bool too_large) {
  stale_ += std::size_t(stale) - std::size_t(u.stale);
  too_large_ += std::size_t(stale && too_large) - std::size_t(u.stale && u.too_large);
  u.stale = stale;
  u.too_large = too_large;
}

void resyncs::load(const std::vector<stale_user>& stored, moment at) {
  std::vector<const stale_user*> oldest_first;
  for (const auto& row : stored)
    oldest_first.push_back(&row);
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const auto* a, const auto* b) { return a->since_ms < b->since_ms; });
  for (const auto* row : oldest_first) {
    auto& u = of(row->user);
    set_stale(u, true, u.too_large);
    u.marks = std::max(u.marks, row->marks);
    if (u.failures == 0 && !u.running && u.waiters.empty()) {
      u.failures = row->failures;
      u.problem = row->problem;
      u.tried_ms = at.now_ms;
      const auto wait = row->next_attempt_ms == 0 ? 0 : row->next_attempt_ms - at.wall_ms;
      u.due_ms = at.now_ms + std::clamp<std::int64_t>(wait, 0, limits_.user_longest_ms);
    }
    file_or_drop(row->user);
  }
}

void resyncs::mark(const std::string& user, std::int64_t marks, moment at) {
  auto& u = of(user);
  if (u.stale && marks <= u.marks) return;
  set_stale(u, true, u.too_large);
  u.marks = std::max(u.marks, marks);
  if (u.running) return; // it goes again after this
  // That its server speaks of the user again is evidence that it knows it now.
  if (u.failures > 0) u.due_ms = std::min(u.due_ms, std::max(at.now_ms, u.tried_ms + limits_.forward_ms));
  else bring_lane_forward(at);
  file_or_drop(user);
}

// --- who waits ------------------------------------------------------------------------------------------------------

resyncs::waiter resyncs::want(const std::vector<std::string>& users, std::int64_t deadline_ms, bool by_hand,
                              moment at) {
  const auto who = ++last_waiter_;
  auto& wish = askings_[who];
  wish.deadline_ms = deadline_ms;
  wish.open.insert(users.begin(), users.end());
  for (const auto& user : std::vector<std::string>(wish.open.begin(), wish.open.end())) {
    auto& u = of(user);
    if (by_hand && !u.running) {
      u.forced = true;
      u.due_ms = at.now_ms;
    }
    if (!u.forced && u.failures == 0) bring_lane_forward(at);
    if (!settled_at_once(who, user, u, at)) u.waiters[who] = u.marks;
    file_or_drop(user);
  }
  if (askings_[who].open.empty()) settled_.insert(who);
  return who;
}

/// What isn't asked for now for a reason of its own is no reason to wait.
bool resyncs::settled_at_once(waiter who, const std::string& user, one& u, moment at) {
  if (u.running || u.forced) return false;
  if (u.due_ms > at.now_ms) {
    settle_one(who, user, u.too_large ? "" : u.problem.empty() ? "it was refused before" : u.problem, u.unknown);
    return true;
  }
  if (!lane_.closed || lane_.next_ms <= at.now_ms) return false;
  settle_one(who, user, "its server refused the device lists of several users in a row", false);
  return true;
}

void resyncs::settle_one(waiter who, const std::string& user, const std::string& why, bool unknown) {
  auto found = askings_.find(who);
  if (found == askings_.end() || found->second.open.erase(user) == 0) return;
  if (!why.empty()) {
    found->second.answer.failed[user] = why;
    if (unknown) found->second.answer.unknown.push_back(user);
  }
  if (found->second.open.empty()) settled_.insert(who);
}

/// `covered_only`: those who came after a mark that the fetch doesn't cover wait for the next one.
void resyncs::settle(const std::string& user, one& u, const std::string& why, bool covered_only) {
  for (auto i = u.waiters.begin(); i != u.waiters.end();) {
    if (covered_only && i->second > u.began_marks) {
      ++i;
      continue;
    }
    settle_one(i->first, user, why, u.unknown);
    i = u.waiters.erase(i);
  }
}

std::vector<std::pair<resyncs::waiter, refreshed>> resyncs::take_answers(moment at) {
  for (auto& [who, wish] : askings_) {
    if (wish.deadline_ms > at.now_ms) continue;
    for (const auto& user : std::exchange(wish.open, {})) {
      wish.answer.failed[user] = "its device list didn't come in time";
      if (auto found = users_.find(user); found != users_.end()) {
        found->second.waiters.erase(who);
        file_or_drop(user);
      }
    }
    settled_.insert(who);
  }
  std::vector<std::pair<waiter, refreshed>> out;
  for (const auto who : std::exchange(settled_, {})) {
    auto found = askings_.find(who);
    if (found == askings_.end()) continue;
    out.emplace_back(who, std::move(found->second.answer));
    askings_.erase(found);
  }
  return out;
}

void resyncs::barred(const std::string& why) {
  for (const auto& [turn, user] : queue(asked_)) {
    auto& u = users_.at(user);
    for (const auto& [who, marks] : u.waiters)
      if (auto wish = askings_.find(who); wish != askings_.end()) wish->second.answer.server_problem = why;
    u.unknown = false;
    settle(user, u, why);
    u.forced = false;
    if (!u.stale) unmarked_.push_back(user);
    file_or_drop(user);
  }
}

// --- whose turn it is -----------------------------------------------------------------------------------------------

void resyncs::unfile(const std::string& user, one& u) {
  if (u.filed == place::ready) ready_.erase({u.filed_key, user});
  if (u.filed == place::ready && u.filed_asked) asked_.erase({u.filed_key, user});
  if (u.filed == place::waiting) waiting_.erase({u.filed_key, user});
  u.filed = place::nowhere;
}

void resyncs::file(const std::string& user, one& u) {
  unfile(user, u);
  if (u.running) return;
  u.filed_asked = !u.waiters.empty() || u.forced;
  u.filed = u.due_ms > 0 && !u.forced ? place::waiting : place::ready;
  u.filed_key = u.filed == place::waiting ? u.due_ms : u.turn;
  if (u.filed == place::waiting) waiting_.insert({u.filed_key, user});
  else ready_.insert({u.filed_key, user});
  if (u.filed == place::ready && u.filed_asked) asked_.insert({u.filed_key, user});
}

/// A user who is neither stale nor waited for is forgotten.
void resyncs::file_or_drop(const std::string& user) {
  auto found = users_.find(user);
  if (found == users_.end()) return;
  auto& u = found->second;
  if (u.stale || u.running || !u.waiters.empty() || u.forced) return file(user, u);
  unfile(user, u);
  users_.erase(found);
}

/// Those whose own wait is over are ready.
void resyncs::ripen(moment at) {
  while (!waiting_.empty() && waiting_.begin()->first <= at.now_ms) {
    const auto user = waiting_.begin()->second;
    auto& u = users_.at(user);
    u.due_ms = 0;
    file(user, u);
  }
}

bool resyncs::slot_free(moment at) const {
  const auto most = std::size_t(proven_ ? limits_.at_a_time : limits_.unproven_at_a_time);
  if (running_.size() >= most) return false;
  if (proven_ || running_.empty()) return true;
  return users_.at(*running_.begin()).began_ms + limits_.patience_ms <= at.now_ms;
}

/// Only what an operator wants, until the lane's moment has come; then one user, whoever was refused least.
std::optional<std::string> resyncs::next_of_closed_lane(moment at) const {
  for (const auto& [turn, user] : asked_)
    if (users_.at(user).forced) return user;
  if (lane_.next_ms > at.now_ms || !running_.empty()) return {};
  std::optional<std::string> best;
  int least = 0;
  for (const auto& [turn, user] : ready_)
    if (const auto failures = users_.at(user).failures; !best || failures < least) best = user, least = failures;
  return best;
}

std::optional<std::string> resyncs::next(moment at) {
  ripen(at);
  if (ready_.empty() || !slot_free(at)) return {};
  if (lane_.closed) return next_of_closed_lane(at);
  return turn_of_asked_ && !asked_.empty() ? asked_.begin()->second : ready_.begin()->second;
}

std::int64_t resyncs::begin(const std::string& user, moment at) {
  auto& u = users_.at(user);
  turn_of_asked_ = !turn_of_asked_;
  unfile(user, u);
  u.running = true;
  u.due_ms = 0;
  u.began_marks = u.marks;
  u.began_ms = u.tried_ms = at.now_ms;
  u.lane_epoch = lane_.epoch;
  running_.insert(user);
  return u.marks;
}

// --- how it ended ---------------------------------------------------------------------------------------------------

std::int64_t resyncs::after(std::int64_t first_ms, double factor, int times, std::int64_t longest_ms) const {
  const auto wait = double(first_ms) * std::pow(factor, std::max(0, times - 1));
  return std::int64_t(std::min(wait, double(longest_ms)));
}

resyncs::outcome resyncs::ended(const std::string& user, fetch_end how, const std::string& problem, moment at) {
  auto& u = users_.at(user);
  u.how = how;
  u.problem = problem;
  u.unknown = how == fetch_end::unknown;
  switch (how) {
  case fetch_end::list:
    u.failures = 0;
    proven_ = true;
    open_lane();
    break;
  case fetch_end::too_large:
    u.failures = 0;
    u.due_ms = at.now_ms + limits_.user_longest_ms;
    proven_ = true;
    open_lane();
    break;
  case fetch_end::unknown:
  case fetch_end::refused:
    refused(user, u, at);
    break;
  case fetch_end::failed:
    u.due_ms = at.now_ms + limits_.after_failure_ms;
    proven_ = false;
    break;
  }
  if (how != fetch_end::list) u.turn = ++turns_;
  const bool waits = u.failures > 0 || how == fetch_end::too_large;
  return {u.failures, waits ? at.wall_ms + u.due_ms - at.now_ms : 0, how == fetch_end::failed && !u.stale};
}

/// The user waits by itself; several in a row close the lane. What began before it closed or opened says nothing more,
/// and nor does what only an operator wanted.
void resyncs::refused(const std::string& user, one& u, moment at) {
  ++u.failures;
  const auto wait = after(limits_.user_first_ms, 2.0, u.failures, limits_.user_longest_ms);
  u.due_ms = at.now_ms +
             std::min(limits_.user_longest_ms, std::int64_t(double(wait) * (1.0 + limits_.lane.jitter * uniform_())));
  proven_ = false;
  if (u.lane_epoch != lane_.epoch) return;
  if (lane_.closed && u.forced) return;
  if (!lane_.closed) {
    lane_.users.insert(user);
    if (lane_.users.size() < std::size_t(limits_.refused_to_close)) return;
    lane_.closed = true;
    ++lane_.epoch;
    lane_.refusals = limits_.refused_to_close;
    lane_.forward_wait_ms = limits_.forward_ms;
  } else {
    ++lane_.refusals;
    if (lane_.brought_forward) lane_.forward_wait_ms = std::min(2 * lane_.forward_wait_ms, limits_.forward_longest_ms);
  }
  lane_.brought_forward = false;
  // The refusals that closed it count, but for one: the first wait is the second step of the schedule.
  const auto step = after(limits_.lane.first_ms, limits_.lane.factor, lane_.refusals - 1, limits_.lane.max_ms);
  lane_.next_ms = at.now_ms + std::int64_t(double(step) * (1.0 + limits_.lane.jitter * (2.0 * uniform_() - 1.0)));
}

void resyncs::open_lane() {
  const auto epoch = lane_.epoch + (lane_.closed ? 1 : 0);
  lane_ = {};
  lane_.epoch = epoch;
}

/// A user who wasn't refused so far is a reason to see whether the server gives lists again: at first once a minute.
void resyncs::bring_lane_forward(moment at) {
  if (!lane_.closed || lane_.next_ms <= at.now_ms) return;
  const auto allowed = lane_.forward_ms ? *lane_.forward_ms + lane_.forward_wait_ms : at.now_ms;
  if (allowed >= lane_.next_ms) return;
  lane_.next_ms = std::max(allowed, at.now_ms);
  lane_.forward_ms = lane_.next_ms;
  lane_.brought_forward = true;
}

void resyncs::stored(const std::string& user, const device_list_saved& saved, moment at) {
  auto found = users_.find(user);
  if (found == users_.end() || !found->second.running) return;
  auto& u = found->second;
  u.running = false;
  running_.erase(user);
  u.forced = false;
  if (!saved.ok) {
    u.due_ms = std::max(u.due_ms, at.now_ms + limits_.after_failure_ms);
    settle(user, u, "its device list could not be stored: " + saved.problem);
    return file_or_drop(user);
  }
  // A mark that was written behind it, in the same commit, may be heard of before it.
  const bool marked_since = u.marks > u.began_marks && u.marks > saved.marks;
  u.marks = std::max(u.marks, saved.marks);
  set_stale(u, saved.still_stale || marked_since, u.how == fetch_end::too_large);
  if (u.how == fetch_end::list) settle(user, u, "", true);
  else if (u.how == fetch_end::too_large) settle(user, u, "");
  else settle(user, u, u.problem);
  file_or_drop(user);
}

void resyncs::cut(const std::string& user) {
  auto found = users_.find(user);
  if (found == users_.end() || !found->second.running) return;
  found->second.running = false;
  running_.erase(user);
  file_or_drop(user);
}

// --- time -----------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> resyncs::next_due(moment at) {
  ripen(at);
  std::optional<std::int64_t> due;
  auto also = [&](std::int64_t moment_ms) {
    if (moment_ms > at.now_ms) due = due ? std::min(*due, moment_ms) : moment_ms;
  };
  for (const auto& [who, wish] : askings_)
    also(wish.deadline_ms);
  if (lane_.closed) {
    if (!ready_.empty()) also(lane_.next_ms);
    else if (!waiting_.empty()) also(std::max(lane_.next_ms, waiting_.begin()->first));
    return due;
  }
  if (!waiting_.empty()) also(waiting_.begin()->first);
  if (!proven_ && running_.size() == 1 && !ready_.empty())
    also(users_.at(*running_.begin()).began_ms + limits_.patience_ms);
  return due;
}

bool resyncs::idle() const { return running_.empty() && askings_.empty() && users_.size() == too_large_; }

} // namespace ranvier
