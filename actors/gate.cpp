#include "actors/gate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace ranvier {

namespace {

constexpr std::int64_t second_ms = 1'000;
constexpr std::int64_t minute_ms = 60 * second_ms;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;

constexpr std::int64_t early_probe_gap_ms = 30 * second_ms; ///< between probes ahead of time, of any kind
constexpr std::int64_t early_key_gap_ms = minute_ms;        ///< between such key fetches
constexpr std::int64_t first_allowance_ms = minute_ms;      ///< between probes that evidence brings forward
constexpr std::int64_t last_allowance_ms = hour_ms;
constexpr std::int64_t name_gone_after_ms = 3 * day_ms;
constexpr std::int64_t clock_jump_ms = 600'000;
constexpr std::int64_t shortest_told_wait_ms = second_ms;

bool is_connect(failure_stage stage) {
  return stage == failure_stage::resolve || stage == failure_stage::connect || stage == failure_stage::tls;
}

std::int64_t allowance_of(int failures) {
  // The first gap is a minute, then it doubles: 1, 2, 4 ... 60 minutes.
  const int doublings = std::clamp(failures - 1, 0, 6);
  return std::min(first_allowance_ms << doublings, last_allowance_ms);
}

bool told_to_wait(const lane_row& row) { return row.last_error.cls == failure_class::rate_limited; }

} // namespace

gate::gate(const backoff_config& backoff, std::function<double()> uniform, const gate_row& stored,
           const hold_row& hold_now, bool denied_now, moment at)
    : backoff_(backoff)
    , uniform_(std::move(uniform))
    , denied_(denied_now)
    , last_success_ms_(stored.last_success_ms) {
  for (const lane via : {lane::push, lane::pull}) {
    lane_state& s = of(via);
    s.row = via == lane::push ? stored.push : stored.pull;
    if (!s.row.closed) continue;
    s.wall_ahead_ms = at.wall_ms - at.now_ms;
    const std::int64_t longest = std::max<std::int64_t>(s.row.interval_ms, 0);
    // The wall clock may have jumped while we were away: of that time no more counts than the wait that had begun.
    const std::int64_t failed_ms = std::min(s.row.next_attempt_ms - longest, at.wall_ms);
    s.failing_ms = at.now_ms - std::max<std::int64_t>(failed_ms - s.row.failing_since_ms, 0) -
                   std::clamp<std::int64_t>(at.wall_ms - failed_ms, 0, longest);
    const std::int64_t left = s.row.next_attempt_ms - at.wall_ms;
    if (left >= 0 && left <= longest) s.next_ms = at.now_ms + left; // as it is stored
    else set_next(s, at.now_ms + std::clamp<std::int64_t>(left, 0, longest), at);
  }
  hold(hold_now, at);
}

// --- asking --------------------------------------------------------------------------------------------------------

pass gate::may_send(moment at) const { return may(lane::push, at, urgency::none); }
pass gate::may_pull(moment at, urgency hurry) const { return may(lane::pull, at, hurry); }

pass gate::may(lane via, moment at, urgency hurry) const {
  if (barred(at)) return pass::no;
  if (!of(via).row.closed) return pass::yes;
  if (probe_) return pass::no;
  if (due_ms(via) <= at.now_ms || (via == lane::pull && hurry_allowed(at, hurry))) return pass::yes_as_probe;
  return pass::no;
}

/// A closed lane's next attempt. While connecting fails, the pull lane lives by the push lane's schedule, or waits for
/// the later of the two if it has one of its own.
std::int64_t gate::due_ms(lane via) const {
  if (via == lane::push || !push_.row.closed) return of(via).next_ms;
  if (pull_.row.closed_on_connect) return push_.next_ms;
  return push_.row.closed_on_connect ? std::max(pull_.next_ms, push_.next_ms) : pull_.next_ms;
}

bool gate::hurry_allowed(moment at, urgency hurry) const {
  if (hurry == urgency::none) return false;
  if (pull_failed_itself() && told_to_wait(pull_.row)) return false; // it told us when to ask again
  if (early_ms_ && at.now_ms - *early_ms_ < early_probe_gap_ms) return false;
  return hurry != urgency::key_fetch || !early_key_ms_ || at.now_ms - *early_key_ms_ >= early_key_gap_ms;
}

/// The pull lane is closed by an answer to a pull (or by none), and not because the push lane closed it along.
bool gate::pull_failed_itself() const {
  const lane_row& row = pull_.row;
  return row.closed && !row.closed_on_connect && row.last_error.cls != failure_class::none;
}

bool gate::held(moment at) const { return hold_.set && (hold_.until_ms == 0 || at.now_ms < hold_until_ms_); }

// --- requests ------------------------------------------------------------------------------------------------------

ticket gate::began(lane via, moment at, urgency hurry) {
  const pass granted = may(via, at, via == lane::pull ? hurry : urgency::none);
  if (granted == pass::no) throw std::logic_error("a request began that the gate forbids");
  ticket t;
  t.via = via;
  t.probe = granted == pass::yes_as_probe;
  t.hurry = hurry;
  t.number = ++tickets_;
  t.epoch = of(via).epoch;
  if (t.probe) {
    probe_ = t.number;
    t.early = due_ms(via) > at.now_ms;
  }
  if (t.early) {
    early_ms_ = at.now_ms;
    if (hurry == urgency::key_fetch) early_key_ms_ = at.now_ms;
  }
  return t;
}

void gate::end_probe(const ticket& t, moment at) {
  if (!t.probe || probe_ != t.number) return;
  probe_.reset();
  if (std::exchange(heard_in_probe_, false)) heard(at);
  if (std::exchange(woken_in_probe_, false)) wake(at);
}

gate_change gate::succeeded(const ticket& t, moment at) {
  gate_change change;
  lane_state& s = of(t.via);
  const bool current = t.epoch == s.epoch;
  if (t.via == lane::push) {
    last_success_ms_ = at.wall_ms;
    change.push_opened = push_.row.closed;
    change.pull_opened = pull_.row.closed && !pull_failed_itself();
  } else {
    // What began before the lane closed says only little: it opens what merely closed along with the push lane.
    const bool along = !pull_failed_itself() && !pull_.row.closed_on_connect;
    change.pull_opened = pull_.row.closed && (current || along);
    if (current && push_.row.closed && push_.row.closed_on_connect && push_.next_ms > at.now_ms) {
      set_next(push_, at.now_ms, at);
      change.save = true;
    }
  }
  if (change.push_opened) open_lane(push_);
  if (change.pull_opened) open_lane(pull_);
  change.save = change.save || change.opened();
  end_probe(t, at);
  return change;
}

gate_change gate::failed(const ticket& t, const failure& why, moment at, bool name_unknown) {
  const lane_state& s = of(t.via);
  const bool old_news = t.epoch != s.epoch;
  // A probe ahead of its time finds what was known already. If it moved the schedule, anybody who makes us fetch a key
  // in a server's name could push that server's next attempt out to the longest interval.
  const bool early = t.early && s.row.closed && due_ms(t.via) > at.now_ms;
  gate_change change;
  if (why.cls != failure_class::none && !old_news && !early) {
    if (is_connect(why.stage)) change = fail_on_connect(why, at, name_unknown);
    else change = t.via == lane::push ? fail_push(why, at) : fail_pull(why, at);
    change.save = true;
  }
  end_probe(t, at);
  return change;
}

gate_change gate::proved_nothing(const ticket& t, moment at) {
  end_probe(t, at);
  return {};
}

gate_change gate::cancelled(const ticket& t, moment at) {
  if (t.early && probe_ == t.number) {
    early_ms_.reset();
    if (t.hurry == urgency::key_fetch) early_key_ms_.reset();
  }
  end_probe(t, at);
  return {};
}

// --- failures ------------------------------------------------------------------------------------------------------

gate_change gate::fail_on_connect(const failure& why, moment at, bool name_unknown) {
  gate_change change;
  change.push_closed = !push_.row.closed;
  change.pull_closed = !pull_.row.closed;
  step(push_, why, at, name_unknown);
  push_.row.closed_on_connect = true;
  if (!pull_failed_itself()) {
    close_pull_along(push_.next_ms, at);
    pull_.row.closed_on_connect = true;
    pull_.row.last_error = push_.row.last_error;
  }
  return change;
}

gate_change gate::fail_push(const failure& why, moment at) {
  gate_change change;
  const bool was_open = !push_.row.closed;
  const std::int64_t was_due_ms = push_.next_ms;
  step(push_, why, at, false);
  push_.row.closed_on_connect = false;
  change.push_closed = was_open;
  if (!pull_.row.closed) {
    // It opened by an answer of its own if the push lane has been closed for longer: then it stays so. A server that
    // refuses a transaction's content lives.
    change.pull_closed = was_open && why.cls != failure_class::content_refused;
    if (change.pull_closed) close_pull_along(push_.next_ms, at);
  } else if (!pull_failed_itself()) {
    // Its turn comes when the push lane's has been, so that it finds out for itself; not so if we were told to wait.
    const bool wait = told_to_wait(push_.row);
    close_pull_along(wait ? push_.next_ms : std::min(was_due_ms, at.now_ms), at);
  }
  return change;
}

gate_change gate::fail_pull(const failure& why, moment at) {
  gate_change change;
  change.pull_closed = !pull_.row.closed;
  step(pull_, why, at, false);
  pull_.row.closed_on_connect = false;
  return change;
}

/// The pull lane is closed, but by no failure of its own.
void gate::close_pull_along(std::int64_t next_ms, moment at) {
  if (!pull_.row.closed) {
    pull_.row.failing_since_ms = at.wall_ms;
    pull_.failing_ms = at.now_ms;
    pull_.wall_ahead_ms = at.wall_ms - at.now_ms;
  }
  pull_.row.closed = true;
  pull_.row.closed_on_connect = false;
  pull_.row.failures = 0;
  pull_.row.last_error = {};
  pull_.row.interval_ms = push_.row.interval_ms;
  set_next(pull_, next_ms, at);
  ++pull_.epoch;
}

/// What is stored must mean the same after a wall clock that jumped: its moments jump along.
void gate::follow_clock(lane_state& s, moment at) {
  const std::int64_t ahead_ms = at.wall_ms - at.now_ms;
  const std::int64_t by_ms = ahead_ms - std::exchange(s.wall_ahead_ms, ahead_ms);
  if (s.row.closed && std::abs(by_ms) > clock_jump_ms) s.row.failing_since_ms += by_ms;
}

/// One more failure of a lane: its streak and its wait.
void gate::step(lane_state& s, failure why, moment at, bool name_unknown) {
  lane_row& row = s.row;
  follow_clock(s, at);
  if (name_unknown && row.closed && at.now_ms - s.failing_ms >= name_gone_after_ms &&
      row.last_error.stage == failure_stage::resolve)
    why.cls = failure_class::gone;
  // A beginning in the future is one from before the clock was set back.
  if (!row.closed || row.failing_since_ms > at.wall_ms) row.failing_since_ms = at.wall_ms;
  if (!row.closed) s.failing_ms = at.now_ms;
  row.closed = true;
  if (why.cls != failure_class::rate_limited) ++row.failures;
  const std::int64_t before_ms = row.interval_ms;
  const auto longest = static_cast<double>(backoff_.max_ms);
  const auto first = static_cast<double>(backoff_.first_ms);
  const double grown = std::min(first * std::pow(backoff_.factor, std::max(row.failures - 1, 0)), longest);
  std::int64_t wait_ms = jittered(why.cls == failure_class::gone ? longest : grown);
  if (why.cls == failure_class::rate_limited) {
    // As told and not a moment less; without a usable word our own interval.
    const std::int64_t most = std::max(backoff_.max_ms, shortest_told_wait_ms);
    wait_ms = std::clamp(why.retry_after_ms >= 0 ? why.retry_after_ms : wait_ms, shortest_told_wait_ms, most);
  }
  if (std::exchange(s.brought_forward, false)) {
    ++s.forward_failures;
    wait_ms = std::max(wait_ms, before_ms); // a one-way link isn't asked more often because it speaks (B13)
  }
  row.last_error = std::move(why);
  row.interval_ms = wait_ms;
  set_next(s, at.now_ms + wait_ms, at);
  ++s.epoch;
}

std::int64_t gate::jittered(double wait_ms) {
  const double by = 1.0 - backoff_.jitter + 2.0 * backoff_.jitter * uniform_();
  return std::max<std::int64_t>(std::llround(wait_ms * by), 1);
}

void gate::set_next(lane_state& s, std::int64_t next_ms, moment at) {
  s.next_ms = next_ms;
  s.row.next_attempt_ms = at.wall_ms + (next_ms - at.now_ms);
}

void gate::open_lane(lane_state& s) {
  const std::uint64_t epoch = s.epoch + 1;
  s = lane_state{};
  s.epoch = epoch;
}

// --- evidence and operators ----------------------------------------------------------------------------------------

bool gate::heard(moment at) {
  if (barred(at)) return false;
  if (probe_) {
    heard_in_probe_ = true;
    return false;
  }
  const bool push = bring_forward(lane::push, at);
  const bool pull = bring_forward(lane::pull, at);
  return push || pull;
}

bool gate::bring_forward(lane via, moment at) {
  lane_state& s = of(via);
  const bool follows = via == lane::pull && push_.row.closed && push_.row.closed_on_connect;
  if (!s.row.closed || follows || s.next_ms <= at.now_ms || told_to_wait(s.row)) return false;
  if (via == lane::pull && !pull_failed_itself() && push_.row.closed && told_to_wait(push_.row)) return false;
  if (s.forward_ms && at.now_ms - *s.forward_ms < allowance_of(s.forward_failures)) return false;
  s.forward_ms = at.now_ms;
  s.brought_forward = true;
  set_next(s, at.now_ms, at);
  return true;
}

bool gate::wake(moment at) {
  if (barred(at)) return false;
  // The probe under way began when it was hopeless, perhaps: if it fails there is another.
  woken_in_probe_ = probe_.has_value();
  for (const lane via : {lane::push, lane::pull})
    if (of(via).row.closed && of(via).next_ms > at.now_ms) set_next(of(via), at.now_ms, at);
  return true;
}

gate_change gate::hold(const hold_row& wanted, moment at) {
  hold_ = wanted;
  hold_until_ms_ = at.now_ms + (wanted.until_ms - at.wall_ms);
  return {};
}

gate_change gate::release(moment at) { return hold({}, at); }

gate_change gate::reset(moment) {
  gate_change change;
  change.push_opened = push_.row.closed;
  change.pull_opened = pull_.row.closed;
  change.save = change.opened();
  open_lane(push_);
  open_lane(pull_);
  early_ms_.reset();
  early_key_ms_.reset();
  return change;
}

} // namespace ranvier
