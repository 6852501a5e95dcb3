#pragma once
#include "actors/introspector.hpp"
#include "actors/supervisor.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace ranvier {

/// The totals of GET /stats: what the supervisor knows, and what waits in the store for those whom it doesn't ask. Asks
/// and waits on the caller's thread; nothing if the supervisor doesn't answer within the time.
std::optional<nlohmann::json> whole_totals(caf::actor_system& system, const supervisor_actor& supervisor,
                                           const introspector_actor& introspector, std::int64_t wall_ms,
                                           std::chrono::milliseconds within);

} // namespace ranvier
