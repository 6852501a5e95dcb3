#pragma once
#include "actors/ingress.hpp"
#include "messages/join_rules.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// One call of POST /rooms/{id}/join.
struct join_order {
  join_wish wish;
  std::vector<std::string> via; ///< candidates in the host's order; not empty, never ours
  bool partial = false;         ///< members may be omitted
  std::shared_ptr<http_exchange> exchange;
  std::shared_ptr<void> held; ///< lives as long as the call: it is counted among those that wait
};

/// Carries out one join (DESIGN section 8, PROTOCOL 14): over the candidates, those with an open gate first, make_join,
/// sign, the intent made durable, send_join, the answer checked, and everything recorded before the host is told.
///
/// Life: made by the join desk for one call, ends with its answer. It is an actor of its own because a checked answer
/// of 100 MB takes seconds: the work goes on in short steps, so that it stands in nobody's way.
void spawn_join_attempt(caf::actor_system& system, ingress_parts parts, join_order order);

} // namespace ranvier
