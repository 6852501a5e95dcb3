#pragma once
#include "actors/failure_classes.hpp"
#include "actors/gate.hpp"

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

constexpr std::int64_t second = 1'000;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;

/// A gate with a clock of its own. Wall time runs `skew` ahead of the monotonic clock.
struct gate_bench {
  backoff_config backoff;
  std::mt19937_64 random{1};
  std::int64_t now = hour, skew = 1'700'000'000'000;
  std::optional<gate> g;

  explicit gate_bench(backoff_config b = {5 * second, 2.0, day, 0.0}) : backoff(b) { start({}); }

  moment at() const { return {now, now + skew}; }
  void start(const gate_row& row, const hold_row& hold = {}, bool denied = false) {
    g.emplace(
      backoff, [this] { return std::uniform_real_distribution<double>(0, 1)(random); }, row, hold, denied, at());
  }
  /// As a new process finds it.
  void restart(std::int64_t down_for = 0) {
    const auto row = g->row();
    const auto hold = g->hold();
    now += down_for;
    start(row, hold);
  }
  pass push() const { return g->may_send(at()); }
  pass pull(urgency hurry = urgency::none) const { return g->may_pull(at(), hurry); }

  gate_change fail(const ticket& t, failure_class cls, failure_stage stage = failure_stage::answer,
                   std::int64_t retry_after = -1, bool name_unknown = false) {
    failure why;
    why.cls = cls;
    why.stage = stage;
    why.retry_after_ms = retry_after;
    why.message = "scripted";
    return g->failed(t, why, at(), name_unknown);
  }
  gate_change fail_push(failure_class cls, failure_stage stage = failure_stage::answer, std::int64_t retry = -1) {
    return fail(g->began(lane::push, at()), cls, stage, retry);
  }
  gate_change fail_pull(failure_class cls, failure_stage stage = failure_stage::answer) {
    return fail(g->began(lane::pull, at()), cls, stage);
  }
  gate_change push_ok() { return g->succeeded(g->began(lane::push, at()), at()); }
  gate_change pull_ok(urgency hurry = urgency::none) { return g->succeeded(g->began(lane::pull, at(), hurry), at()); }
  gate_change refused_connection() { return fail_push(failure_class::unreachable, failure_stage::connect); }

  /// To the next attempt of the push lane; false if there is none.
  bool to_next_attempt(lane via = lane::push) {
    const auto due = g->next_due(via, at());
    if (!due)
      return false;
    now = std::max(now, *due);
    return true;
  }
  int streak() const { return g->view(at()).consecutive_failures; }
  std::string state() const { return g->view(at()).state; }
  std::int64_t wait() const { return g->next_due(lane::push, at()).value() - now; }
};

} // namespace ranvier
