#pragma once
#include "actors/admission.hpp"
#include "tests/simulation/world.hpp"

namespace ranvier::sim {

/// The egress of a simulated life: takes orders as the real one does, asks the real admission whose turn it is, and
/// lets the world decide what comes of a request. No sockets and no names: those are tested elsewhere.
egress_actor spawn_network(caf::actor_system& system, world& outside, admission_limits limits);

} // namespace ranvier::sim
