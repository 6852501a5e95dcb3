#pragma once
#include "actors/admin_api.hpp"

#include <optional>

namespace ranvier {

/// POST /log_level, /database/check and /database/backup: what an operator does to the process and its file. Runs on
/// the thread of the admin server; at most one copy or check at a time. `no`: the request is another one.
void add_engine_routes(router& routes);
std::optional<admin_answer> engine_order(const admin_call& in, const ingress_parts& parts);

} // namespace ranvier
