#pragma once
#include "messages/log_entry.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ranvier {

/// Why a request to a server failed (DESIGN section 5). `none` is for "no error yet".
enum class failure_class : std::uint8_t {
  none,
  unreachable,
  server_error,
  rate_limited,
  refused,
  content_refused,
  gone
};
/// How far it had come.
enum class failure_stage : std::uint8_t { build, resolve, connect, tls, request, answer };
/// What a request is for: `push` is /send; `pull` all other requests of ours.
enum class lane : std::uint8_t { push, pull };

struct failure {
  failure_class cls = failure_class::none;
  failure_stage stage = failure_stage::answer;
  int status = 0;                   ///< HTTP status, 0 if none came
  std::string item;                 ///< the item at fault, if one is
  std::string message;              ///< a sentence for people
  std::int64_t retry_after_ms = -1; ///< what a 429 asked for; -1: nothing usable
  bool operator==(const failure&) const = default;
};

/// One lane of a destination's gate as it is stored; moments are wall clock, ms; 0 means none.
struct lane_row {
  bool closed = false;
  int failures = 0; ///< in a row
  std::int64_t failing_since_ms = 0;
  std::int64_t next_attempt_ms = 0;
  std::int64_t interval_ms = 0;   ///< the wait of next_attempt_ms, jitter included
  bool closed_on_connect = false; ///< the failure that closed it was one to connect
  failure last_error;
  bool operator==(const lane_row&) const = default;
};

struct gate_row {
  lane_row push, pull;
  std::int64_t last_success_ms = 0;
  bool operator==(const gate_row&) const = default;
};

/// An operator's hold; absent if `set` is false.
struct hold_row {
  bool set = false;
  std::string reason;
  std::int64_t until_ms = 0; ///< 0: until released
  bool operator==(const hold_row&) const = default;
};

/// How far a destination has everything that it was owed (DESIGN section 4).
struct cursors {
  position pdu = 0, device_lists = 0, to_device = 0;
  bool operator==(const cursors&) const = default;
};

/// What storage knows of a destination.
struct destination_row {
  std::string name;
  cursors at;
  gate_row gate;
  hold_row hold;
  std::int64_t last_inbound_ms = 0;
  std::int64_t let_go = 0;      ///< items let go by a rule, ever
  int rooms = 0;                ///< rooms shared now
  std::int64_t quarantined = 0; ///< items that it refuses, set aside
};

} // namespace ranvier
