#include "tests/simulation/network.hpp"

#include "messages/protocol/delivery.hpp"

#include <map>
#include <utility>

namespace ranvier::sim {

namespace {

using network_actor = egress_actor::extend<caf::reacts_to<tick>>;

struct network_state {
  network_state() = default;
  static inline const char* name = "network";
  struct request {
    http_order order;
    http_answer answer;
    std::int64_t since_ms = 0;
  };
  world* outside = nullptr;
  std::map<std::uint64_t, request> under_way;
  std::uint64_t last = 0;
};
using network_self = network_actor::stateful_pointer<network_state>;

std::int64_t now_ms(network_self self) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now().time_since_epoch()).count();
}

void finish(network_self self, std::uint64_t number, bool cancelled) {
  auto& s = self->state;
  const auto found = s.under_way.find(number);
  if (found == s.under_way.end())
    return;
  auto one = std::move(found->second);
  s.under_way.erase(found);
  if (cancelled) {
    one.answer = {};
    one.answer.cancelled = true;
  }
  one.answer.id = one.order.call.id;
  one.answer.took_ms = now_ms(self) - one.since_ms;
  s.outside->answered(one.order.call, one.answer, now_ms(self));
  self->send(one.order.reply_to, make_local(std::move(one.answer)));
}

void start(network_self self, const http_order& order) {
  auto& s = self->state;
  auto fate = s.outside->receive(order.call, now_ms(self));
  auto after = fate.after_ms;
  if (after > order.call.timeout_ms) {
    fate.answer = {};
    fate.answer.request_sent = true;
    fate.answer.problem = "no answer in time";
    after = order.call.timeout_ms;
  }
  s.under_way.emplace(++s.last, network_state::request{order, std::move(fate.answer), now_ms(self)});
  self->delayed_send(self, std::chrono::milliseconds(after), tick{s.last});
}

network_actor::behavior_type network(network_self self, world* outside) {
  self->state.outside = outside;
  return {[self](const local<http_order>& order) { start(self, *order); },
          [self](const local<cancel_calls>& which) {
            std::vector<std::uint64_t> numbers;
            for (const auto& [number, one] : self->state.under_way)
              if (one.order.asker == which->asker)
                numbers.push_back(number);
            for (const auto number : numbers)
              finish(self, number, true);
            return done{};
          },
          [](const describe&) { return description{"{}"}; },
          [self](const tick& t) { finish(self, t.generation, false); }};
}

} // namespace

egress_actor spawn_network(caf::actor_system& system, world& outside) { return system.spawn(network, &outside); }

} // namespace ranvier::sim
