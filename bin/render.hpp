#pragma once
#include "bin/table.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

// What the admin API answers, as text for people. Pure: JSON and the present moment in, text out. Members that are
// missing, null or of another kind are passed over: the CLI may be older or newer than the engine.

namespace ranvier {

/// The columns of `ls`; rows are D of API.md section 5.
const std::vector<column>& destination_columns();
/// The columns of `stale-users`.
const std::vector<column>& stale_user_columns();
/// The columns of `actors`.
const std::vector<column>& actor_columns();

/// `status`: `stats` is the answer of GET /stats; `closed` those destinations whose gate isn't open, for the last line.
std::string status_text(const nlohmann::json& stats, const std::vector<nlohmann::json>& closed, std::int64_t now_ms);

/// `show`: one D with its attempts.
std::string destination_text(const nlohmann::json& destination, std::int64_t now_ms);

/// "unreachable: no route (PUT /send)", with the stage "unreachable at connect: ..."; empty without an error.
std::string error_text(const nlohmann::json& last_error, bool with_stage);

} // namespace ranvier
