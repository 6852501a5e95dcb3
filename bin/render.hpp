#pragma once
#include "bin/screen.hpp"
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
/// The columns of `queue`.
const std::vector<column>& queue_columns();
/// The columns of `rooms`.
const std::vector<column>& room_columns();
/// The columns of `attempts`.
const std::vector<column>& attempt_columns();
/// The columns of `audit`.
const std::vector<column>& audit_columns();
const std::vector<column>& join_columns(); // columns_subjects.cpp
const std::vector<column>& quarantine_columns();
const std::vector<column>& hold_columns(); ///< of those D that are held
/// The columns of `actors`.
const std::vector<column>& actor_columns();

/// `status`: `stats` is the answer of GET /stats; `closed` those destinations whose gate isn't open, for the last line.
std::string status_text(const nlohmann::json& stats, const std::vector<nlohmann::json>& closed, std::int64_t now_ms,
                        const screen& on = {});

/// `show`: one D with its attempts.
std::string destination_text(const nlohmann::json& destination, std::int64_t now_ms, const screen& on = {});

/// The attempts of a D, newest last; empty if there are none.
std::string attempts_text(const nlohmann::json& destination, std::int64_t now_ms);

/// What is in flight to a D, in words; empty if nothing is.
std::string in_flight_text(const nlohmann::json& destination, std::int64_t now_ms);

/// `why`: the answer of GET /why, about a destination, an event, a user or a room.
std::string why_text(const nlohmann::json& answer, std::int64_t now_ms, const screen& on = {});

/// `shape`: the answer of GET /shape.
std::string shape_text(const nlohmann::json& answer, const screen& on = {});

/// "unreachable: no route (PUT /send)", with the stage "unreachable at connect: ..."; empty without an error.
std::string error_text(const nlohmann::json& last_error, bool with_stage);

/// `events`, `trace`: one thing that happened, in a line.
std::string event_text(const nlohmann::json& event, const screen& on = {});

/// `config show`: the answer of GET /config as a file would have it, with where each key was given.
std::string config_text_of(const nlohmann::json& answer, bool origin, const screen& on = {});

/// `actor`: the answer of GET /actors/{id}.
std::string actor_text(const nlohmann::json& actor, std::int64_t now_ms, const screen& on = {});

/// `resolve`: the answer of GET /destinations/{name}/resolve.
std::string route_text(const nlohmann::json& answer, const screen& on = {});
/// `probe`: the answer of POST /destinations/{name}/probe.
std::string probe_text(const nlohmann::json& answer, std::int64_t now_ms, const screen& on = {});

/// `stat`: a line of numbers, with titles above it.
std::string stat_text(const nlohmann::json& stats, bool titles, const screen& on = {});

/// What somebody should look at, a part each: many that fail alike, old stale users, partial joins, quarantine. `stats`
/// may have the partial joins themselves in "partial_join_list".
std::vector<std::string> attention_parts(const nlohmann::json& stats, const std::vector<nlohmann::json>& closed,
                                         std::int64_t now_ms);

} // namespace ranvier
