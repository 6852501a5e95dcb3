#pragma once
#include "messages/protocol/delivery.hpp"
#include "messages/protocol/storage.hpp"

#include <functional>

namespace ranvier {

struct keyring_parts {
  supervisor_actor supervisor; ///< passes key requests on to the destination of the server in question
  ledger_actor ledger;
  reader_actor reader;
  std::function<std::int64_t()> wall_ms;
};

/// Remote signing keys: from memory, from storage, or fetched from their server (K1), one fetch at a time per server.
/// A failed fetch is not remembered: the destination's gate alone says when the next may go (DESIGN section 5).
/// Lives as long as the engine; holds nothing that storage doesn't, so a crash costs nothing.
keyring_actor spawn_keyring(caf::actor_system& system, keyring_parts parts);

} // namespace ranvier
