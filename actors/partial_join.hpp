#pragma once
#include "actors/destination.hpp"
#include "messages/joins.hpp"
#include "messages/protocol/delivery.hpp"

#include <memory>

namespace ranvier {

/// One partially joined room.
using partial_join_actor = caf::typed_actor<caf::reacts_to<heard_from>, // this server can be reached again
                                            caf::replies_to<operate_join>::with<done>, // retry, abandon
                                            caf::reacts_to<tick>,                      // its own timer
                                            caf::replies_to<describe>::with<description>>;

struct partial_join_parts {
  std::shared_ptr<const destination_parts> common;
  supervisor_actor supervisor; ///< all requests go through its destinations and their gates
  keyring_actor keyring;
};

/// Fetches the full state of a room that was joined with members omitted, from whoever of the room's servers has it,
/// and ends the partial join: complete, or abandoned when everybody refuses (DESIGN section 8).
///
/// Life: made by the supervisor at boot and when a join was recorded; ends with the partial join, or when the
/// supervisor says that another way ended it (the last of ours left). It remembers nothing that matters: the row has
/// everything, so a crash or a restart costs a question more. Answers that come after its end find nobody.
partial_join_actor spawn_partial_join(caf::actor_system& system, partial_join_parts parts, partial_join_row row);

} // namespace ranvier
