#pragma once
#include <string>
#include <string_view>

namespace ranvier {

/// JSON text in which numbers that simdjson has no type for are written as doubles: an integer beyond 64 bits becomes
/// the nearest double, and what is beyond doubles (1e400) the largest double. All else stays as it is, so broken text
/// stays broken.
///
/// Why: such a number spoils only the event or EDU that it stands in (strict canonical JSON refuses every double), not
/// the whole transaction; and rooms of version 1 to 5 should cope with it (C4). Digits beyond a double's precision are
/// lost, so a hash or signature over such a number doesn't match.
std::string with_large_numbers_as_doubles(std::string_view text);

} // namespace ranvier
