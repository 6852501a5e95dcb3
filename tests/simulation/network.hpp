#pragma once
#include "tests/simulation/world.hpp"

#include <memory>

namespace ranvier::sim {

/// The egress of a simulated life: takes orders as the real one does, and lets the world decide what comes of them.
/// No admission, no pool: those are the real egress' own and tested there.
egress_actor spawn_network(caf::actor_system& system, world& outside);

} // namespace ranvier::sim
