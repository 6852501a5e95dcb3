#pragma once
#include "actors/net/admin_server.hpp"
#include "actors/net/http_exchange.hpp"

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// What the files of the admin desk share: how a thread of the admin server asks an actor, and how it answers.

namespace ranvier::admin {

/// Within what the CLI waits (2 s), so that it hears a sentence and not silence.
constexpr auto patience = std::chrono::milliseconds(1800);

inline admin_answer refuse(int status, std::string_view errcode, std::string_view sentence) {
  return {status, error_body(errcode, sentence)};
}
inline admin_answer busy() { return refuse(503, "M_UNKNOWN", "the engine is too busy to answer; ask again"); }

inline std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
inline admin_answer answer_with(const nlohmann::json& value) { return {200, text_of(value)}; }

/// Asks and waits. Nothing if no answer came in time.
template <class Reply, class Handle, class Message>
std::optional<Reply> ask(caf::actor_system& system, const Handle& whom, Message message,
                         std::chrono::milliseconds within = patience) {
  caf::scoped_actor self{system};
  std::optional<Reply> out;
  self->request(whom, within, std::move(message))
      .receive([&](Reply& reply) { out = std::move(reply); }, [](const caf::error&) {});
  return out;
}

} // namespace ranvier::admin
