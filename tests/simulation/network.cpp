#include "tests/simulation/network.hpp"

#include "messages/protocol/delivery.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

namespace ranvier::sim {

namespace {

constexpr std::int64_t idle_connection_ms = 2 * minute;

using network_actor = egress_actor::extend<caf::reacts_to<tick>>;

struct network_state {
  network_state() = default;
  static inline const char* name = "network";
  struct request {
    http_order order;
    http_answer answer;
    std::int64_t since_ms = 0;
    std::uint64_t round = 0; ///< the timer of an earlier one, which was cut, says nothing
    bool running = false;
    bool sent = false; ///< in any round, as the real egress says it: before a cut, the peer may have taken it
  };
  world* outside = nullptr;
  std::optional<admission> queue;
  std::unordered_map<std::uint64_t, request> orders;
  std::unordered_map<std::string, std::int64_t> connected_ms; ///< when a connection was last used
  std::unordered_map<std::uint64_t, std::uint64_t> rounds;    ///< number of a round -> ticket
  std::uint64_t last = 0, admit_timer = 0;
  std::int64_t admit_due_ms = -1;
};
using network_self = network_actor::stateful_pointer<network_state>;

std::int64_t now_ms(network_self self) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now().time_since_epoch()).count();
}

void begin(network_self self, std::uint64_t ticket) {
  auto& s = self->state;
  auto& one = s.orders.at(ticket);
  const auto now = now_ms(self);
  const auto& call = one.order.call;
  auto fate = s.outside->receive(call, now);
  if (const auto known = s.connected_ms.find(call.destination);
      known == s.connected_ms.end() || now - known->second > idle_connection_ms)
    s.queue->opened_socket(ticket);
  if (fate.connects) {
    s.connected_ms[call.destination] = now;
    s.queue->connected(ticket);
    one.sent = true;
  }
  if (fate.after_ms > call.timeout_ms) {
    fate.answer = {};
    fate.answer.request_sent = true;
    fate.answer.problem = "no answer in time";
    fate.after_ms = call.timeout_ms;
  }
  one.answer = std::move(fate.answer);
  one.since_ms = now;
  one.running = true;
  one.round = ++s.last;
  s.rounds.emplace(one.round, ticket);
  self->delayed_send(self, std::chrono::milliseconds(fate.after_ms), tick{one.round});
}

void admit(network_self self) {
  auto& s = self->state;
  const auto now = now_ms(self);
  const auto orders = s.queue->next(now);
  for (const auto ticket : orders.cut) {
    auto& one = s.orders.at(ticket);
    s.outside->cut(one.order.call);
    s.rounds.erase(one.round);
    one.running = false;
  }
  for (const auto ticket : orders.start)
    begin(self, ticket);
  const auto next = s.queue->next_moment(now);
  if (next < 0 || (s.admit_due_ms > now && s.admit_due_ms <= next)) return;
  s.admit_due_ms = std::max(next, now + 1);
  s.admit_timer = ++s.last;
  self->delayed_send(self, std::chrono::milliseconds(s.admit_due_ms - now), tick{s.admit_timer});
}

void finish(network_self self, std::uint64_t ticket, bool cancelled) {
  auto& s = self->state;
  auto found = s.orders.find(ticket);
  auto one = std::move(found->second);
  s.orders.erase(found);
  const auto now = now_ms(self);
  if (cancelled) {
    one.answer = {};
    one.answer.cancelled = true;
  }
  one.answer.request_sent = one.sent;
  if (one.answer.status == 0) s.connected_ms.erase(one.order.call.destination);
  one.answer.id = one.order.call.id;
  one.answer.took_ms = one.running ? now - one.since_ms : 0;
  s.rounds.erase(one.round);
  s.queue->finished(ticket, one.answer.status != 0, now);
  s.outside->answered(one.order.call, one.answer, now, one.running);
  self->send(one.order.reply_to, make_local(std::move(one.answer)));
}

void take(network_self self, const http_order& order) {
  auto& s = self->state;
  s.outside->ordered(order.call, now_ms(self));
  const auto ticket = ++s.last;
  s.orders[ticket].order = order;
  s.queue->add({ticket, order.call.destination, order.call.probe, order.call.repeatable, order.call.timeout_ms});
  admit(self);
}

done cancel(network_self self, const cancel_calls& which) {
  std::vector<std::uint64_t> tickets;
  for (const auto& [ticket, one] : self->state.orders)
    if (which.waiting_only ? !one.running : one.order.asker == which.asker) tickets.push_back(ticket);
  for (const auto ticket : tickets)
    finish(self, ticket, true);
  admit(self);
  return done{};
}

void on_tick(network_self self, std::uint64_t number) {
  auto& s = self->state;
  if (number == s.admit_timer) {
    s.admit_due_ms = -1;
  } else if (const auto round = s.rounds.find(number); round != s.rounds.end()) {
    finish(self, round->second, false);
  }
  admit(self);
}

network_actor::behavior_type network(network_self self, world* outside, const admission_limits& limits) {
  self->state.outside = outside;
  self->state.queue.emplace(limits, [self](const std::string& server) {
    const auto known = self->state.connected_ms.find(server);
    return known != self->state.connected_ms.end() && now_ms(self) - known->second <= idle_connection_ms ? 1 : 0;
  });
  return {[self](const local<http_order>& order) { take(self, *order); },
          [self](const local<cancel_calls>& which) { return cancel(self, *which); },
          [](const describe&) { return description{"{}"}; }, [self](const tick& t) { on_tick(self, t.generation); }};
}

} // namespace

egress_actor spawn_network(caf::actor_system& system, world& outside, admission_limits limits) {
  return system.spawn(network, &outside, limits);
}

} // namespace ranvier::sim
