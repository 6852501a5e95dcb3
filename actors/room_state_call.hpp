#pragma once
#include "actors/ingress.hpp"

#include <memory>
#include <string>

namespace ranvier {

/// One call of GET /rooms/{id}/state, from its request to its answer: the state if the host may have it, else 409 at
/// once or after `wait_ms`. Whoever made it passes on every stream_advanced, at which it looks again: a partial join
/// ends with an item on the stream. `held` lives as long as the call.
///
/// Life: made by the join desk for one call, ends with its answer. It is an actor of its own because a full state is a
/// long text, and because it has a timer.
caf::actor spawn_room_state_call(caf::actor_system& system, ingress_parts parts,
                                 std::shared_ptr<http_exchange> exchange, std::string room_id, std::int64_t wait_ms,
                                 std::shared_ptr<void> held);

/// The sentence of a 409 M_RANVIER_PARTIAL from what describe_joins said of the room.
std::string partial_sentence(const std::string& room_id, const std::string& described);

} // namespace ranvier
