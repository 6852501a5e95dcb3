#pragma once
#include "messages/gate_row.hpp"
#include "messages/protocol/egress.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ranvier {

/// What an answer says about the server that gave it (or gave none).
enum class verdict : std::uint8_t {
  success,       ///< it lives and did what we asked
  failure,       ///< it counts against the server, see `judged::why`
  proves_nothing ///< neither: the gate stays as it was, a probe slot is freed
};

struct judged {
  verdict is = verdict::proves_nothing;
  failure why; ///< cls is none unless `is` is failure
};

/// What the judge must know beside the answer. All times in ms.
struct judge_context {
  std::string request;                       ///< what was asked, for people: "PUT /send", "GET /user/devices"
  std::int64_t timeout_ms = 60'000;          ///< of this request, for "no answer within 60 s"
  std::int64_t wall_ms = 0;                  ///< now; an HTTP date in Retry-After is relative to it
  std::int64_t longest_wait_ms = 86'400'000; ///< backoff.max: no Retry-After counts for more than this
};

/// The answer to a /send (T4, T7; DESIGN section 5): nothing if it is the one success, a 200 that is no HTML page,
/// whatever its body; else why it failed. An answer with `cancelled` is nobody's failure and must not be brought here.
std::optional<failure> classify_push(const http_answer& answer, const judge_context& about);

/// The answer to any other request of ours. 5xx, 429 and no answer at all are failures; a 200 that is no HTML page is a
/// success; any other status proves nothing about the server (B19; a 410 may be one thing that is gone), and nor does
/// `cancelled`.
judged classify_pull(const http_answer& answer, const judge_context& about);

/// How long a 429 wants us to wait: Retry-After (seconds or an HTTP date), else the body's retry_after_ms (T9),
/// between 1 s and `longest_ms`. -1 if neither says anything usable (B89): then the gate takes its own interval.
std::int64_t retry_after_of(std::string_view header, std::string_view body, std::int64_t wall_ms,
                            std::int64_t longest_ms);

/// An HTTP date ("Sun, 06 Nov 1994 08:49:37 GMT", or one of the two older forms) in ms since the epoch.
std::optional<std::int64_t> parse_http_date(std::string_view text);

/// The names of the API (section 5): "unreachable", "connect"... `none` is "none".
std::string_view to_string(failure_class cls);
std::string_view to_string(failure_stage stage);

} // namespace ranvier
