#pragma once
#include "actors/net/dns.hpp"
#include "actors/net/http_client.hpp"
#include "actors/resolver.hpp"
#include "messages/config.hpp"
#include "messages/protocol/egress.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

struct egress_settings {
  http_client_settings http;
  std::shared_ptr<http_client> client;       ///< shared with the resolver; null: one of its own is made from `http`
  std::int64_t resolve_timeout_ms = 180'000; ///< a resolver that doesn't answer is a failure at stage resolve
};

/// Made at start, before any destination. Takes orders, has their names resolved, hands them to the HTTP client's
/// thread and passes each answer on to whom the order names: exactly one for each order, whatever happens; if the actor
/// itself ends, as cancelled.
egress_actor spawn_egress(caf::actor_system& system, egress_settings settings, resolver_actor resolver);

/// Egress and resolver with one HTTP client and one DNS client, as `serve` wants them.
struct outgoing {
  egress_actor egress;
  resolver_actor resolver;
};
/// Throws std::runtime_error with a sentence if the trust anchors can't be read or DNS can't be set up.
/// `seed`: of the choice between SRV targets of one priority. `max_connections`: kept open at most, idle ones included;
/// 0: the client's own limit.
outgoing spawn_outgoing(caf::actor_system& system, const config& c, std::uint64_t seed,
                        std::int64_t max_connections = 0);

} // namespace ranvier
