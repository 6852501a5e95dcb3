#pragma once
#include "actors/net/http_exchange.hpp"
#include "actors/readiness.hpp"
#include "messages/canonical_json.hpp"
#include "messages/config.hpp"
#include "messages/protocol/delivery.hpp"
#include "messages/protocol/ingress.hpp"
#include "messages/signing.hpp"
#include "messages/x_matrix.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace ranvier {

class metrics;

/// Everything that the ingress needs; copies share it.
struct ingress_parts {
  supervisor_actor supervisor;
  ledger_actor ledger;
  std::function<reader_actor()> reader; ///< the one to ask next
  keyring_actor keyring;
  std::shared_ptr<const config> settings;
  std::shared_ptr<const signing_key> key;
  std::function<std::int64_t()> wall_ms;      ///< wall clock; called from any thread
  std::function<std::string()> metrics;       ///< the text of /metrics; called from any thread
  std::shared_ptr<ranvier::metrics> counters; ///< null: nothing is counted
  std::shared_ptr<readiness> ready;
  std::string host_token; ///< what load_or_make_token gave
  std::string version;    ///< of the program
};

/// A request that an HTTP thread has routed, checked in form and parsed.
struct incoming {
  enum class side : std::uint8_t { federation, host } from = side::host;
  std::shared_ptr<http_exchange> exchange;
  std::shared_ptr<json_document> document; ///< the body, or null
  x_matrix auth;                           ///< federation: not yet verified
  mutable std::string content;             ///< federation: the body as canonical JSON; dropped once it was verified
};

/// Part of a feed, on its way to the ledger. `answer` is called on the actor.
struct feed_step {
  local<feed_batch> batch;
  std::function<void(const feed_outcome&)> answer;
};

/// A piece of an event stream has gone out, or its client has gone.
struct stream_call;
struct stream_written {
  std::shared_ptr<stream_call> call;
  bool ok = false;
};

/// Turns requests into messages and answers when the actors do, or at the deadline. Made by the engine after ledger,
/// readers, supervisor and keyring; ends last before them. Holds nothing durable: if it dies every open request is
/// answered 500, peers and host ask again, and a new one takes its place behind the same handle.
using ingress_actor = caf::typed_actor<caf::reacts_to<local<incoming>>,       // from an HTTP thread
                                       caf::reacts_to<local<feed_step>>,      // from an HTTP thread
                                       caf::reacts_to<local<stream_written>>, // from an HTTP thread
                                       caf::reacts_to<stream_advanced>,       // whoever made stream items durable
                                       caf::reacts_to<tick>,                  // its own timer
                                       caf::replies_to<describe>::with<description>>;

ingress_actor spawn_ingress(caf::actor_system& system, ingress_parts parts);

/// The federation and host listeners, on shared threads. Made after the actor, stopped before it.
class ingress_listeners {
public:
  /// Throws std::runtime_error with a sentence if an address or certificate can't be used.
  ingress_listeners(const ingress_parts& parts, ingress_actor actor);
  ~ingress_listeners();
  /// Requests that are open get `grace` to be answered. Blocks until done.
  void stop(std::chrono::milliseconds grace);
  std::uint16_t federation_port() const;
  std::uint16_t host_port() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace ranvier
