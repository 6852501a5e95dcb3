#pragma once
#include "actors/net/http_exchange.hpp"
#include "actors/net/router.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ranvier {

struct upstream_limits {
  std::size_t at_a_time = 16;               ///< requests; each holds a thread while it waits for the host
  std::size_t waiting = 200;                ///< beyond: 503
  std::size_t answer_bytes = 100u << 20;    ///< of the host's answer; beyond: 502
  std::chrono::milliseconds connect{3000};  ///< loopback, or a machine beside us
  std::chrono::milliseconds silence{60000}; ///< without a byte of the answer; then 504
};

/// [federation] upstream: hands requests that aren't ours to the homeserver, after they were authenticated, and its
/// answer back (API section 4). The host learns who asks from X-Ranvier-Origin, which nobody else can set: of the
/// request's own headers only those that matter to a homeserver go on.
///
/// Life: one, owned by the federation desk; ends what is under way when it goes. Every exchange is answered: with the
/// host's answer, 502 if it can't be reached or breaks off, 504 if it is silent, 503 if too many wait. Thread-safe.
class upstream {
public:
  /// `base`: http://host:port.
  explicit upstream(const std::string& base, upstream_limits limits = {});
  ~upstream();
  upstream(const upstream&) = delete;
  upstream& operator=(const upstream&) = delete;

  /// The exchange's method, target and body as they came. `origin`: who signed it, verified.
  void pass(std::shared_ptr<http_exchange> exchange, const std::string& origin);

private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Whether a target may be handed on: it stands under /_matrix/federation/, and however a host may read it (percent
/// escapes in fixed words, empty and dotted segments) it is none of those that `ours` serves. Empty: yes; else why not.
std::string not_for_upstream(const router& ours, std::string_view target);

} // namespace ranvier
