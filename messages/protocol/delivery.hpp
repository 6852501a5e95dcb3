#pragma once
#include "messages/gate_row.hpp"
#include "messages/protocol/common.hpp"
#include "messages/protocol/egress.hpp"
#include "messages/protocol/storage.hpp"

#include <map>
#include <string>

namespace ranvier {

/// A destination wants new entries as messages from now on; the answer says after which position they come.
struct subscribe {
  std::string destination;
  template <class I> friend typename I::result_type inspect(I& f, subscribe& x) {
    return f(caf::meta::type_name("subscribe"), x.destination);
  }
};
struct subscribed {
  position from = 0; ///< every entry above it will be delivered as a message
  template <class I> friend typename I::result_type inspect(I& f, subscribed& x) {
    return f(caf::meta::type_name("subscribed"), x.from);
  }
};
/// It dropped its window: send it no more entries; only `more_waiting` once, if something comes.
struct unsubscribe {
  std::string destination;
  template <class I> friend typename I::result_type inspect(I& f, unsubscribe& x) {
    return f(caf::meta::type_name("unsubscribe"), x.destination);
  }
};

/// An idle destination asks to retire. Granted only if the supervisor sent it just `received` messages so far: then it
/// is forgotten in the same step, and no message is ever lost to a retiring actor.
struct may_retire {
  std::string destination;
  std::uint64_t received = 0;
  template <class I> friend typename I::result_type inspect(I& f, may_retire& x) {
    return f(caf::meta::type_name("may_retire"), x.destination, x.received);
  }
};

/// A request of ours to a server that isn't /send, through its gate's pull lane.
struct pull {
  static constexpr std::int64_t shortest_patience_ms = 5'000; ///< who won't wait so long is hasty
  std::string destination, method, uri;
  shared_text body; ///< canonical JSON, or empty
  std::int64_t timeout_ms = 30'000;
  std::int64_t max_answer_bytes = 1 << 20;
  bool may_probe = false; ///< may be the probe ahead of time (a key fetch for verification; DESIGN section 5)
  bool repeatable = true; ///< false: never sent twice once its bytes may have arrived (a key claim, Q7)
  bool sign = true;       ///< X-Matrix; not for /_matrix/key
  bool hasty = false;     ///< whoever asks won't wait longer: that no answer came in time says nothing of the server
  template <class I> friend typename I::result_type inspect(I& f, pull& x) {
    return f(caf::meta::type_name("pull"), x.destination, x.method, x.uri, x.body, x.timeout_ms, x.max_answer_bytes,
             x.may_probe, x.repeatable, x.sign, x.hasty);
  }
};
struct pulled {
  int status = 0; ///< 0: no answer, `problem` says why (also: the gate is closed, nothing was sent)
  shared_text body;
  std::string problem;
  std::int64_t took_ms = 0;
  bool not_sent = false; ///< the gate is closed (or the like): nothing went out, it was no try
  template <class I> friend typename I::result_type inspect(I& f, pulled& x) {
    return f(caf::meta::type_name("pulled"), x.status, x.body, x.problem, x.took_ms, x.not_sent);
  }
};

/// Asks a destination to make the lists of its users true, within the caller's time: those that are stale or not held
/// are fetched, one request a user whoever asks. Answered when all are, or can't be. Never a probe.
struct refresh_lists {
  std::string destination;
  std::vector<std::string> users;
  std::int64_t within_ms = 10'000;
  bool by_hand = false; ///< an operator's: the user's own wait doesn't count
  template <class I> friend typename I::result_type inspect(I& f, refresh_lists& x) {
    return f(caf::meta::type_name("refresh_lists"), x.destination, x.users, x.within_ms, x.by_hand);
  }
};
struct refreshed {
  std::map<std::string, std::string> failed; ///< user -> why; a user that isn't named is fresh now (or too_large)
  std::string server_problem;                ///< not empty: the server can't be reached now, and why
  std::vector<std::string> unknown;          ///< of `failed`: their server says that it doesn't know them (404, F2)
  template <class I> friend typename I::result_type inspect(I& f, refreshed& x) {
    return f(caf::meta::type_name("refreshed"), x.failed, x.server_problem, x.unknown);
  }
};

/// Valid signed traffic came from this server (evidence of life; DESIGN section 5).
struct heard_from {
  std::string server;
  template <class I> friend typename I::result_type inspect(I& f, heard_from& x) {
    return f(caf::meta::type_name("heard_from"), x.server);
  }
};

/// An operator's word to one destination. The answer to a drop that was done has what went as JSON in `problem`.
struct operate {
  std::string destination,
      verb; ///< wake, hold, release, reset, drop, restart; send_refused: what the quarantine wants retried
  std::string reason, who;
  std::int64_t until_ms = 0; ///< hold: 0 = until released; drop: only what is older than that moment, 0 = all
  template <class I> friend typename I::result_type inspect(I& f, operate& x) {
    return f(caf::meta::type_name("operate"), x.destination, x.verb, x.reason, x.who, x.until_ms);
  }
};

/// An operator's or the host's word about a partial join.
struct operate_join {
  std::string room_id, verb; ///< retry, abandon
  std::string reason, who;
  template <class I> friend typename I::result_type inspect(I& f, operate_join& x) {
    return f(caf::meta::type_name("operate_join"), x.room_id, x.verb, x.reason, x.who);
  }
};

/// Connecting to this server begins to fail, or a whole answer came from it. Told at a change, and an answer once a
/// minute besides: how the supervisor sees an outage of our own uplink.
struct reachability {
  std::string server;
  bool reached = false;
  template <class I> friend typename I::result_type inspect(I& f, reachability& x) {
    return f(caf::meta::type_name("reachability"), x.server, x.reached);
  }
};

/// Our uplink is back: a probe that waits for its moment is due now.
struct come_forward {
  template <class I> friend typename I::result_type inspect(I& f, come_forward&) {
    return f(caf::meta::type_name("come_forward"));
  }
};

/// We were away for long: this server is owed one transaction, if need be an empty one, so that it stops backing off
/// from us; a success since then will do. Answered when one was taken; `ok` false if its gate doesn't let one pass.
struct announce {
  std::int64_t since_ms = 0; ///< wall clock
  template <class I> friend typename I::result_type inspect(I& f, announce& x) {
    return f(caf::meta::type_name("announce"), x.since_ms);
  }
};

/// The engine stops: no new request begins. Answered when what was in flight is answered and acked, at the latest
/// after `within_ms` (the supervisor's word; a destination answers when its transaction ends).
struct wind_down {
  std::int64_t within_ms = 0;
  template <class I> friend typename I::result_type inspect(I& f, wind_down& x) {
    return f(caf::meta::type_name("wind_down"), x.within_ms);
  }
};

struct deliver {
  std::shared_ptr<const log_entry> entry; ///< shared between all destinations
};

struct tick {
  std::uint64_t generation = 0;
  template <class I> friend typename I::result_type inspect(I& f, tick& x) {
    return f(caf::meta::type_name("tick"), x.generation);
  }
};

/// One remote server: its gate, its cursors, what waits for it, the one transaction in flight.
using destination_actor =
    caf::typed_actor<caf::reacts_to<local<deliver>>,                  // a new entry that this server is owed
                     caf::reacts_to<local<http_answer>>,              // the egress answers
                     caf::replies_to<pull>::with<pulled>,             // a request through the pull lane
                     caf::replies_to<refresh_lists>::with<refreshed>, // device lists of its users are wanted
                     caf::reacts_to<heard_from>,                      // it spoke to us
                     caf::replies_to<operate>::with<done>,            // wake, hold, release, reset
                     caf::replies_to<announce>::with<done>,           // after an outage of ours
                     caf::reacts_to<come_forward>,                    // likewise, of our uplink
                     caf::replies_to<wind_down>::with<done>,          // the engine stops
                     caf::reacts_to<tick>,                            // its own timer
                     caf::replies_to<describe>::with<description>>;

/// Remote signing keys and their validity; single flight per server.
struct get_key {
  std::string server, key_id;
  std::int64_t valid_at_ms = 0; ///< events: origin_server_ts; requests: now. 0: no demand (room versions 1 to 4, K8)
  bool for_event = false;       ///< old_verify_keys will do (K6)
  bool may_fetch = true;
  template <class I> friend typename I::result_type inspect(I& f, get_key& x) {
    return f(caf::meta::type_name("get_key"), x.server, x.key_id, x.valid_at_ms, x.for_event, x.may_fetch);
  }
};
struct got_key {
  std::string key; ///< 32 bytes in unpadded base64; empty: not to be had
  std::string problem;
  template <class I> friend typename I::result_type inspect(I& f, got_key& x) {
    return f(caf::meta::type_name("got_key"), x.key, x.problem);
  }
};
using keyring_actor = caf::typed_actor<caf::replies_to<get_key>::with<got_key>, //
                                       caf::replies_to<describe>::with<description>>;

/// The engine's other actors, which GET /actors shows too, and the keyring, without which no partial join goes on.
struct introduce {
  std::vector<describable> others;
  keyring_actor keyring;
};
struct find_destination {
  std::string name;
};
struct list_actors {
  std::uint64_t id = 0; ///< only this one, with its full state; 0: all, in brief
};
struct list_view {
  std::string state, text, order_by, direction, from; ///< filters of GET /destinations
  std::size_t limit = 100;
};
struct describe_one {
  std::string name;
};
struct totals {};

using supervisor_actor =
    caf::typed_actor<caf::reacts_to<local<committed>>,                // from the ledger, in position order
                     caf::replies_to<subscribe>::with<subscribed>,    // from a destination
                     caf::reacts_to<unsubscribe>,                     //
                     caf::replies_to<may_retire>::with<done>,         //
                     caf::replies_to<pull>::with<pulled>,             // passed on to the destination
                     caf::replies_to<refresh_lists>::with<refreshed>, // likewise
                     caf::reacts_to<heard_from>,                      // passed on if it waits for something
                     caf::replies_to<operate>::with<done>,            // passed on, 'ok' false if nobody knows the name
                     caf::replies_to<operate_join>::with<done>,       // 'ok' false if no such partial join is under way
                     caf::replies_to<local<describe_joins>>::with<description>, // partial joins, with their verdicts
                     caf::reacts_to<reachability>,                              // from a destination
                     caf::replies_to<wind_down>::with<done>,                    // the engine stops
                     caf::replies_to<local<describe_one>>::with<description>, // D of API section 5; empty text: unknown
                     caf::replies_to<local<list_view>>::with<description>,    // GET /destinations
                     caf::replies_to<local<list_actors>>::with<description>,  // GET /actors
                     caf::replies_to<local<totals>>::with<description>,       // GET /stats
                     caf::reacts_to<local<introduce>>,                        // whom GET /actors shows too
                     caf::reacts_to<tick>,                                    // its own timer
                     caf::replies_to<describe>::with<description>>;

} // namespace ranvier
