#pragma once
#include "messages/join_answer.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ranvier {

/// Keys that are needed: server -> key id -> a moment at which the key must be valid (0: no demand, K8).
using keys_wanted = std::map<std::string, std::map<std::string, std::int64_t>>;

/// One batch for a notary (K12), of at most `at_most` servers.
std::string notary_query(const keys_wanted& missing, std::size_t at_most = 1000);

/// What a notary knows of them. The key documents are signed by their servers, but whoever makes up a key can sign with
/// it: these keys are good for judging what this very server told us of a room, and are never stored as anybody's.
/// Wholly broken answers give nothing.
join_keys read_notary_answer(std::string_view body, const keys_wanted& missing, std::int64_t wall_ms);

} // namespace ranvier
