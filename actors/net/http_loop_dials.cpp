#include "actors/net/http_loop.hpp"

// Requests that wait for another one's connection to the same server. curl could do that too (PIPEWAIT), but then each
// of them begins to wait anew when a dial fails: ten requests to a dead server would take ten times the timeout.

namespace ranvier {
namespace {

constexpr std::int64_t look_at_held_every_ms = 100;

}

/// It dials itself if nobody else does and no connection is there; then it needn't wait either if one is.
bool http_client::loop::must_wait(const transfer& t) {
  const auto& name = t.job.call.destination;
  if (!settings_.http2 || !t.job.call.repeatable) return false;
  if (!dials_.dialling(name) && hosts_.count(name) > 0) return false;
  return !dials_.enter(name, t.ticket);
}

void http_client::loop::go_released() {
  for (auto id : dials_.released()) {
    auto& t = *transfers_.at(id);
    t.held = false;
    go(t);
  }
}

/// A server that couldn't be connected to: those that waited for it have the same answer, if they had the same route.
void http_client::loop::share_failure(const transfer& t, const http_reply& reply) {
  if (reply.answer.status != 0 || reply.answer.request_sent) return;
  for (auto id : dials_.waiting_for(t.job.call.destination, t.ticket)) {
    auto& other = *transfers_.at(id);
    if (other.job.way.addresses == t.job.way.addresses) end_unmade(other, reply);
  }
}

void http_client::loop::end_overdue(std::int64_t at) {
  if (dials_.waiting() == 0 || at < next_look_at_held_) return;
  next_look_at_held_ = at + look_at_held_every_ms;
  for (auto id : dials_.all_waiting()) {
    auto& t = *transfers_.at(id);
    if (at - t.admitted < t.job.call.timeout_ms) continue;
    http_reply r;
    r.answer.stage = failure_stage::connect;
    r.answer.problem =
        "no connection to " + t.job.way.addresses.front() + " after " + std::to_string(t.job.call.timeout_ms) + " ms";
    end_unmade(t, std::move(r));
  }
}

/// Ends one that waited. Nothing of it was sent since it was admitted; before that, in a round that was cut, it may
/// have been, and then the asker may send the same bytes only (T3).
void http_client::loop::end_unmade(transfer& t, http_reply reply) {
  auto at = now();
  reply.answer.request_sent = t.request_sent();
  reply.answer.id = t.job.call.id;
  reply.answer.took_ms = at - t.admitted;
  detach(t);
  admission_.finished(t.ticket, false, at);
  finish(t, std::move(reply));
}

} // namespace ranvier
