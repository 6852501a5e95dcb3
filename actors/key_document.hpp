#pragma once
#include "messages/protocol/storage.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What the body of GET /_matrix/key/v2/server says, judged (K1-K3, K7, K15). Pure.
struct key_document {
  std::vector<remote_key> keys; ///< empty if there is a problem
  std::string problem;
};

/// `server` is the name that was asked; the self-signature by at least one of its current keys is checked, and a wrong
/// one by any of them refuses the whole. Validity is capped at seven days from `wall_ms` (K7).
key_document read_key_document(std::string_view body, const std::string& server, std::int64_t wall_ms);

/// The key among those known that may be used, or nothing: `valid_at_ms` 0 demands no validity (K8); old keys only for
/// events that are older than their end (K6).
const remote_key* usable_key(const std::vector<remote_key>& known, const std::string& key_id, std::int64_t valid_at_ms,
                             bool for_event);

} // namespace ranvier
