// What others tell a destination to do: operators, the supervisor after an outage of ours, the engine when it stops.
#include "actors/destination_core.hpp"
#include "actors/happenings.hpp"
#include "actors/log.hpp"
#include "messages/introspection.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 30s;

} // namespace

void destination_core::heard() {
  tell_step("heard_from", birth_.name, {});
  row_.last_inbound_ms = parts_->wall_ms();
  if (gate_ && gate_->heard(now())) {
    wake_wanted_ = wake_wanted_ || frozen_ || owed_;
    step();
  }
}

/// Our uplink is back; what failed while it was away says nothing.
void destination_core::come_forward_now() {
  if (!gate_) {
    when_loaded_.push_back([this] { come_forward_now(); });
    return;
  }
  const auto at = now();
  if (gate_->open(lane::push)) return;
  wake_wanted_ = gate_->wake(at) || wake_wanted_;
  step();
}

caf::result<done> destination_core::announce_us(const announce& word) {
  if (gate_ && gate_->row().last_success_ms >= word.since_ms) return done{};
  auto promise = self_->make_response_promise<done>();
  idle_since_ms_ = now_ms();
  announcements_.push_back(promise);
  if (gate_ && gate_->may_send(now()) != pass::yes) settle_announcements(false);
  step();
  return promise;
}

void destination_core::settle_announcements(bool ok) {
  for (auto& one : std::exchange(announcements_, {}))
    one.deliver(done{ok, ok ? "" : birth_.name + " takes nothing now"});
}

/// Nothing new goes out from now on; answered when the transaction in flight is over, and its ack at the ledger.
caf::result<done> destination_core::finish() {
  auto promise = self_->make_response_promise<done>();
  finishing_ = promise;
  end_refreshes("the engine is stopping");
  if (!in_flight_) promise.deliver(done{});
  return promise;
}

caf::result<done> destination_core::obey(const operate& order) {
  auto promise = self_->make_response_promise<done>();
  if (gate_) carry_out(order, promise);
  else when_loaded_.push_back([this, order, promise] { carry_out(order, promise); });
  return promise;
}

void destination_core::carry_out(const operate& order, caf::typed_response_promise<done> promise) {
  const auto at = now();
  idle_since_ms_ = at.now_ms;
  log_info("operator",
           {{"destination", birth_.name}, {"verb", order.verb}, {"who", order.who}, {"reason", order.reason}});
  if (order.verb == "hold" || order.verb == "release") return hold_or_release(order, promise);
  done outcome;
  if (order.verb == "wake" && gate_->held(at)) {
    outcome = {false, birth_.name + " is held; release it first"};
  } else if (order.verb == "wake") {
    wake_wanted_ = true;
    resyncs_.wake(at);
    const bool now_due = gate_->wake(at);
    step();
    if (!now_due && !gate_->open(lane::push))
      outcome = {false, birth_.name + " is " + gate_->view(at).state + "; release it first"};
  } else if (order.verb == "reset") {
    follow(gate_->reset(at));
    resyncs_.reset();
    step();
  } else if (order.verb == "drop") {
    if (!dropping_) {
      dropping_ = drop_order{order, promise};
      return step();
    }
    outcome = {false, "another drop of " + birth_.name + " is under way"};
  } else if (order.verb == "send_refused") {
    // What it refused once stands in storage, to go again: the log is read anew.
    owed_ = extras_ = true;
    if (outbox_.state() != outbox::phase::closed) drop_window();
    step();
  } else {
    outcome = {false, "a destination can't be told to " + order.verb};
  }
  promise.deliver(outcome);
}

/// With nothing in flight. What was frozen may hold what goes, and isn't sent again.
void destination_core::drop_owed() {
  if (std::exchange(dropping_->asked, true)) return;
  frozen_.reset();
  if (outbox_.state() != outbox::phase::closed || subscribing_) drop_window();
  owed_ = extras_ = true; // whatever is left is read again
  self_->request(parts_->ledger, store_timeout, make_local(let_go_owed{birth_.name, dropping_->order.until_ms}))
      .then([this](const local<owed_dropped>& what) { owed_is_dropped(*what); },
            [this](const caf::error& problem) {
              owed_dropped failed;
              failed.ok = false;
              failed.problem = self_->system().render(problem);
              owed_is_dropped(failed);
            });
}

void destination_core::owed_is_dropped(const owed_dropped& what) {
  const auto was = std::exchange(dropping_, {});
  if (what.ok && what.known) {
    outbox_.start_at(what.at);
    poison_ = poison();
  }
  const nlohmann::json counts{
      {"pdus", what.counts.pdus}, {"device_lists", what.counts.device_lists}, {"to_device", what.counts.to_device}};
  log_warning("owed_dropped", {{"destination", birth_.name},
                               {"who", was->order.who},
                               {"reason", was->order.reason},
                               {"what", what.ok ? counts.dump() : "nothing: " + what.problem}});
  auto promise = was->promise;
  promise.deliver(done{what.ok, what.ok ? counts.dump() : "nothing was dropped: " + what.problem});
  step();
}

/// It takes effect at once; the answer waits until it would survive a restart, and says so if it wouldn't.
void destination_core::hold_or_release(const operate& order, caf::typed_response_promise<done> promise) {
  const auto at = now();
  const bool set = order.verb == "hold";
  row_.hold = set ? hold_row{true, order.reason, order.until_ms} : hold_row{};
  follow(set ? gate_->hold(row_.hold, at) : gate_->release(at));
  auto not_stored = [promise, name = birth_.name, verb = order.verb](const std::string& why) mutable {
    log_error("hold_not_stored", {{"destination", name}, {"why", why}});
    promise.deliver(done{false, "the " + verb + " of " + name + " is in effect but could not be stored: " + why});
  };
  self_
      ->request(parts_->ledger, store_timeout,
                make_local(save_hold{birth_.name, order.reason, order.who, set, order.until_ms}))
      .then(
          [promise, not_stored](const done& d) mutable {
            if (d.ok) promise.deliver(d);
            else not_stored(d.problem);
          },
          [this, not_stored](const caf::error& problem) mutable { not_stored(self_->system().render(problem)); });
  step();
}

} // namespace ranvier
