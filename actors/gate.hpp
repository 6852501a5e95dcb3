#pragma once
#include "messages/config.hpp"
#include "messages/gate_row.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ranvier {

/// Now, on both clocks: waits are measured on the monotonic one, stored and shown moments are wall time.
struct moment {
  std::int64_t now_ms = 0;  ///< monotonic
  std::int64_t wall_ms = 0; ///< since the epoch
};

/// May a request go out now?
enum class pass : std::uint8_t { no, yes, yes_as_probe };

/// How much a pull may hurry (DESIGN section 5). `user`: a user's claim or join. `key_fetch`: a signing key that an
/// inbound request needs for its verification. Both may be the probe ahead of time, within the gate's limits.
enum class urgency : std::uint8_t { none, user, key_fetch };

/// One request that the gate let pass, from began() to the one call that ends it. Keep it beside the http_call.
struct ticket {
  lane via = lane::push;
  bool probe = false; ///< goes into http_call::probe
  urgency hurry = urgency::none;
  bool early = false;       ///< a probe ahead of its time: its failure moves no schedule
  std::uint64_t number = 0; ///< of this gate's requests
  std::uint64_t epoch = 0;  ///< of its lane, when it began
};

/// What a call changed. The actor saves the row if `save`, logs one line if a lane opened or closed (never one for
/// each try, B20), and asks for the next turn if something opened.
struct gate_change {
  bool save = false;
  bool push_opened = false, push_closed = false; ///< an interval closed(server, from, to) ends or starts with it
  bool pull_opened = false, pull_closed = false;
  bool opened() const { return push_opened || pull_opened; }
};

/// The gate as it is shown (API section 5, D.gate). Moments are wall time.
struct gate_view {
  std::string state;               ///< open, closed, probing, held, denied: the push lane's
  std::string push, pull, devices; ///< open or closed
  std::optional<std::int64_t> failing_since_ms, next_attempt_ms;
  std::int64_t interval_ms = 0;
  int consecutive_failures = 0;
  std::optional<failure> last_error; ///< of the push lane, while it is closed
};

/// One remote server's health, and whether it may be contacted now: the only place that decides it (DESIGN section 5).
/// Pure: no clock, no I/O; the destination actor owns one, made from what storage knows, and saves row() when told to.
///
/// Two lanes, push (/send) and pull (everything else), and at most one probe at a time over both (guarantee 3).
///  - Open: everything passes. Closed: nothing, until the lane's next attempt is due; then exactly one request, the
///    probe. Held or denied: nothing at all.
///  - A failure to connect, on either lane, closes both, and then both live by the push lane's schedule: a dead server
///    gets one probe an interval, not two. Another failure of a push closes both (content_refused: the push lane only,
///    the server lives), of a pull the pull lane only.
///  - A push lane opens by a successful push alone; this opens the pull lane too, unless a pull's own failure closed
///  it.
///    A successful pull opens the pull lane, and makes push due now if that had closed on connect.
///  - Of requests that were under way together only the first failure counts: a lane's epoch changes with each step,
///  and
///    what a request of an older epoch has to tell is old (B19).
class gate {
public:
  /// `uniform` gives numbers in [0, 1). A stored next attempt is clamped to [now, now + its interval], so a wall clock
  /// that jumped neither strands nor storms the server (B11, B16).
  gate(const backoff_config& backoff, std::function<double()> uniform, const gate_row& stored, const hold_row& hold,
       bool denied, moment at);

  // --- asking

  pass may_send(moment at) const;
  /// A hurried pull may be the probe ahead of time: one at a time, one in 30 s, a key fetch one in 60 s.
  pass may_pull(moment at, urgency hurry = urgency::none) const;

  // --- requests: each ticket ends by exactly one of the four

  /// Takes the passage that may_send or may_pull just granted at the same moment; throws std::logic_error if neither
  /// would (guarantee 3 holds whatever the caller does).
  ticket began(lane via, moment at, urgency hurry = urgency::none);
  gate_change succeeded(const ticket& t, moment at);
  /// `name_unknown`: http_answer's; a name that hasn't existed for 3 days is gone.
  gate_change failed(const ticket& t, const failure& why, moment at, bool name_unknown = false);
  gate_change proved_nothing(const ticket& t, moment at);
  /// It ended without a verdict (cut by the egress' patience, or by us): a cut probe keeps its turn.
  gate_change cancelled(const ticket& t, moment at);

  // --- evidence and operators

  /// Valid signed traffic came from it: brings the next probe of a closed lane forward to now, at first once a minute,
  /// the allowance doubling to an hour while probes so brought forward fail. Nothing while it told us to wait (429).
  /// True if a probe is due now that was not.
  bool heard(moment at);
  /// An operator wants a probe now, or our uplink came back. False if it is held or denied: then nothing happens.
  bool wake(moment at);
  gate_change hold(const hold_row& hold, moment at);
  gate_change release(moment at);
  /// Forgets the failure history: open.
  gate_change reset(moment at);
  void deny(bool denied) { denied_ = denied; }

  // --- timers and views

  /// When the actor must wake up for a lane with work: its probe is due, or a hold ends (monotonic ms; it may lie in
  /// the past: due now). None if nothing but an event can change the answer: the lane is open, a probe is under way
  /// (its end is the event), held without end, denied.
  std::optional<std::int64_t> next_due(lane via, moment at) const;
  /// The earlier of those lanes that have work waiting.
  std::optional<std::int64_t> next_due(bool push_waits, bool pull_waits, moment at) const;

  bool open(lane via) const { return !of(via).row.closed; }
  bool denied() const { return denied_; }
  bool held(moment at) const;
  bool probing() const { return probe_.has_value(); }
  /// As it is stored; wall-clock moments.
  gate_row row() const;
  const hold_row& hold() const { return hold_; }
  gate_view view(moment at) const;

private:
  /// A lane: what is stored, and the parts that live only in memory.
  struct lane_state {
    lane_row row;
    std::int64_t next_ms = 0;               ///< row.next_attempt_ms on the monotonic clock
    std::int64_t failing_ms = 0;            ///< row.failing_since_ms likewise; what counts for `gone`
    std::int64_t wall_ahead_ms = 0;         ///< wall minus monotonic clock at the last failure: a jump shows in it
    std::uint64_t epoch = 0;                ///< counts closings, openings and steps
    std::optional<std::int64_t> forward_ms; ///< when evidence last brought a probe forward (monotonic)
    int forward_failures = 0;               ///< such probes that failed, in this failure history
    bool brought_forward = false;           ///< the probe that comes next, or is under way, is due to evidence
  };

  const lane_state& of(lane via) const { return via == lane::push ? push_ : pull_; }
  lane_state& of(lane via) { return via == lane::push ? push_ : pull_; }
  bool barred(moment at) const { return denied_ || held(at); }
  std::int64_t due_ms(lane via) const;
  pass may(lane via, moment at, urgency hurry) const;
  bool hurry_allowed(moment at, urgency hurry) const;
  bool pull_failed_itself() const;
  gate_change fail_on_connect(const failure& why, moment at, bool name_unknown);
  gate_change fail_push(const failure& why, moment at);
  gate_change fail_pull(const failure& why, moment at);
  void close_pull_along(std::int64_t next_ms, moment at);
  static void follow_clock(lane_state& s, moment at);
  void step(lane_state& s, failure why, moment at, bool name_unknown);
  void set_next(lane_state& s, std::int64_t next_ms, moment at);
  bool bring_forward(lane via, moment at);
  void open_lane(lane_state& s);
  std::int64_t jittered(double wait_ms);
  void end_probe(const ticket& t, moment at);

  backoff_config backoff_;
  std::function<double()> uniform_;
  lane_state push_, pull_;
  hold_row hold_;
  std::int64_t hold_until_ms_ = 0; ///< monotonic; meaningless unless hold_.until_ms is set
  bool denied_ = false;
  std::optional<std::uint64_t> probe_; ///< the ticket that is the probe under way
  std::uint64_t tickets_ = 0;
  bool heard_in_probe_ = false; ///< evidence that came while a probe was under way counts when that has ended
  bool woken_in_probe_ = false; ///< and so does a word that it is to be tried now
  std::optional<std::int64_t> early_ms_, early_key_ms_; ///< when the last early probes began (monotonic)
  std::int64_t last_success_ms_ = 0;
};

} // namespace ranvier
