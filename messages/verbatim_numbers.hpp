#pragma once
#include <string>
#include <string_view>

namespace ranvier {

/// The text holds a number that canonical JSON doesn't allow or that two libraries may spell differently: with a
/// fraction or an exponent, minus zero, or of more than 15 digits. One pass, no JSON is checked.
bool has_odd_numbers(std::string_view json);

/// Canonical form but for its numbers, which stay as they stand in `json`: the bytes that a peer signed whose library
/// writes 1.0 where ours writes 1. Of a body that was parsed before; throws json_problem if it is no JSON or nested
/// deeper than max_body_depth.
///
/// Why: one such number must cost only the event or EDU that it stands in (B103). Judged over our own spelling, the
/// signature of the whole request would be wrong, and the peer would repeat it for ever (T3).
std::string canonical_body_verbatim(std::string_view json);

} // namespace ranvier
