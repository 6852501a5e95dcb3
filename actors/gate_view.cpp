#include "actors/gate.hpp"

#include <algorithm>
#include <cstdlib>

namespace ranvier {
namespace {

constexpr std::int64_t clock_breath_ms = 1'000;

} // namespace

std::optional<std::int64_t> gate::next_due(lane via, moment at) const {
  if (denied_) return std::nullopt;
  if (held(at)) return hold_.until_ms == 0 ? std::nullopt : std::optional(hold_until_ms_);
  if (!of(via).row.closed || probe_) return std::nullopt;
  return due_ms(via);
}

std::optional<std::int64_t> gate::next_due(bool push_waits, bool pull_waits, moment at) const {
  const auto push = push_waits ? next_due(lane::push, at) : std::nullopt;
  const auto pull = pull_waits ? next_due(lane::pull, at) : std::nullopt;
  if (push && pull) return std::min(*push, *pull);
  return push ? push : pull;
}

gate_row gate::row() const {
  gate_row out;
  out.push = push_.row;
  out.pull = pull_.row;
  out.last_success_ms = last_success_ms_;
  return out;
}

gate_view gate::view(moment at) const {
  gate_view out;
  const lane_row& row = push_.row;
  const bool due = probe_.has_value() || due_ms(lane::push) <= at.now_ms;
  out.state = !row.closed ? "open" : due ? "probing" : "closed";
  if (held(at)) out.state = "held";
  if (denied_) out.state = "denied";
  out.push = row.closed ? "closed" : "open";
  out.pull = pull_.row.closed ? "closed" : "open";
  out.devices = "open";
  if (row.closed) {
    out.failing_since_ms = row.failing_since_ms;
    out.interval_ms = row.interval_ms;
    out.consecutive_failures = row.failures;
    out.last_error = row.last_error;
    // The two clocks are read one after the other and differ by a breath; only a wall clock that jumped counts.
    const auto next = at.wall_ms + (push_.next_ms - at.now_ms);
    out.next_attempt_ms = std::abs(next - row.next_attempt_ms) <= clock_breath_ms ? row.next_attempt_ms : next;
  }
  if (held(at)) {
    const auto next = out.next_attempt_ms.value_or(0);
    out.next_attempt_ms = hold_.until_ms == 0 ? std::nullopt : std::optional(std::max(hold_.until_ms, next));
  }
  if (denied_) out.next_attempt_ms.reset();
  return out;
}

} // namespace ranvier
