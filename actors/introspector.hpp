#pragma once
#include "messages/introspection.hpp"
#include "messages/protocol/common.hpp"

#include <functional>
#include <string>

namespace ranvier {

struct introspector_settings {
  std::string path; ///< of a database that the ledger has opened before
  std::function<std::int64_t()> wall_ms;
  std::int64_t catch_up_events_per_room = 50;
};

/// Answers operators' questions about what is stored (API section 5: queue, rooms, shape, why) on a connection and a
/// thread of its own: they may look at much, and no delivery waits behind them.
///
/// Life: one, made beside the ears, after the ledger. If a question fails its asker gets an error and it goes on; its
/// end costs nothing but answers.
using introspector_actor = caf::typed_actor<caf::replies_to<local<read_queue>>::with<local<queue_page>>,     //
                                            caf::replies_to<local<read_drop>>::with<local<drop_counts>>,     //
                                            caf::replies_to<local<read_waiting>>::with<local<waiting_sums>>, //
                                            caf::replies_to<local<read_rooms>>::with<local<rooms_page>>,     //
                                            caf::replies_to<local<read_shape>>::with<local<shape_rows>>,     //
                                            caf::replies_to<local<trace_event>>::with<local<event_trace>>,   //
                                            caf::replies_to<local<trace_room>>::with<local<room_trace>>,     //
                                            caf::replies_to<local<trace_user>>::with<local<user_trace>>,     //
                                            caf::replies_to<describe>::with<description>>;

introspector_actor spawn_introspector(caf::actor_system& system, introspector_settings settings, bool detached);

} // namespace ranvier
