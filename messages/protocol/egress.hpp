#pragma once
#include "messages/gate_row.hpp"
#include "messages/protocol/common.hpp"

namespace ranvier {

/// One outgoing HTTPS request. Exactly one http_answer with the same id follows, always, whatever happens.
struct http_call {
  std::uint64_t id = 0;      ///< the asker's own number
  std::string destination;   ///< server name (before discovery)
  std::string method;        ///< GET, PUT, POST
  std::string uri;           ///< path and query, percent-encoded, exactly as it was signed (X2)
  shared_text body;          ///< empty: no body
  std::string authorization; ///< value of the Authorization header, or empty
  lane via = lane::pull;
  bool probe = false;     ///< the one request that a closed gate lets pass
  bool repeatable = true; ///< false: goes out once (/keys/claim): never cut and sent again, always on a new connection
  std::int64_t timeout_ms = 60'000;        ///< from the moment it is admitted (it may queue before) to the answer's end
  std::int64_t max_answer_bytes = 1 << 20; ///< a longer answer is a failure at stage answer
};

struct http_answer {
  std::uint64_t id = 0;
  int status = 0; ///< 0: no whole answer came
  std::string content_type, retry_after;
  shared_text body;
  failure_stage stage = failure_stage::answer; ///< if status is 0: where it failed
  bool name_unknown = false;                   ///< NXDOMAIN
  bool request_sent = false;                   ///< bytes of the request may have reached the peer
  bool cancelled = false;                      ///< ended by cancel_calls, nobody's failure
  std::string problem;                         ///< if status is 0: a sentence
  std::string peer_address;                    ///< ip:port that was dialled, if it came so far
  std::int64_t took_ms = 0;                    ///< since it was admitted
};

/// End everything that is outstanding under this asker's name; the answers (cancelled) go to `reply_to` of each call.
/// With `waiting_only` and no asker: the engine stops. Whatever hasn't begun is answered as cancelled, now and from now
/// on; what is under way goes on.
struct cancel_calls {
  std::string asker;
  bool waiting_only = false;
};

/// Whoever asks the egress takes its answers.
using http_asker = caf::typed_actor<caf::reacts_to<local<http_answer>>>;

struct http_order {
  std::string asker; ///< a destination's name: at most one incarnation of it may have calls outstanding
  http_call call;
  http_asker reply_to;
};

/// All outgoing HTTPS: admission, connection pool, TLS, limits, timeouts.
using egress_actor = caf::typed_actor<caf::reacts_to<local<http_order>>, // one request; the answer goes to reply_to
                                      caf::replies_to<local<cancel_calls>>::with<done>, // ends what is outstanding for
                                                                                        // an asker, then answers
                                      caf::replies_to<describe>::with<description>>;

/// How a server name is reached (PROTOCOL section 3).
struct route {
  bool ok = false;
  std::string problem;                ///< why not, with the step that failed
  bool name_unknown = false;          ///< NXDOMAIN, not a passing fault
  bool denied = false;                ///< all addresses stand in ip_deny
  std::vector<std::string> addresses; ///< "ip:port" or "[ip]:port", in the order to try
  std::string host_header;
  std::string tls_name;           ///< SNI and certificate name; for an IP literal the IP (no SNI then)
  bool pinned = false;            ///< from [federation.addresses]: ip_deny doesn't apply
  std::vector<std::string> steps; ///< every step of discovery in words, for `ranvier resolve`
};
struct resolve {
  std::string server_name;
  bool no_cache = false;      ///< look everything up anew
  bool after_failure = false; ///< the route that it gave couldn't be connected to: look anew, once in 5 minutes
};

/// Server discovery and its cache; single flight per name.
using resolver_actor =
    caf::typed_actor<caf::replies_to<local<resolve>>::with<local<route>>, caf::replies_to<describe>::with<description>>;

} // namespace ranvier
