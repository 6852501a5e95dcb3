#include "actors/room_state_call.hpp"

#include "messages/joins.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 30s;
constexpr auto describe_timeout = 5s;

using self_ptr = caf::event_based_actor*; ///< stateful_actor<holder>, in which the core lives

class room_state_call {
public:
  room_state_call(self_ptr self, ingress_parts parts, std::shared_ptr<http_exchange> exchange, std::string room_id,
                  std::int64_t wait_ms, std::shared_ptr<void> held)
      : self_(self)
      , parts_(std::move(parts))
      , exchange_(std::move(exchange))
      , room_id_(std::move(room_id))
      , wait_ms_(wait_ms)
      , held_(std::move(held)) {}

  caf::behavior make_behavior() {
    if (wait_ms_ > 0) self_->delayed_send(self_, std::chrono::milliseconds(wait_ms_), tick{});
    read();
    return {[this](const stream_advanced&) { moved(); },
            [this](const tick&) {
              over_ = true; // one last look: not every end of a partial join is told on the stream
              if (!reading_) read();
            }};
  }

private:
  void moved() {
    if (reading_) again_ = true;
    else read();
  }

  void read() {
    if (exchange_->answered()) return self_->quit();
    reading_ = true;
    again_ = false;
    self_->request(parts_.reader(), read_timeout, make_local(read_room_state{room_id_}))
        .then([this](const local<room_state>& found) { take(*found); },
              [this](const caf::error&) {
                answer(503, error_body("M_UNKNOWN", "no answer from the database in time; try again"));
              });
  }

  void take(const room_state& found) {
    reading_ = false;
    if (!found.known) return answer(404, error_body("M_NOT_FOUND", "no roster of this room was ever fed"));
    if (found.partial) {
      if (wait_ms_ <= 0 || over_) return say_partial();
      if (again_) read();
      return;
    }
    if (!found.kept)
      return answer(404, error_body("M_NOT_FOUND", "of this room no state is kept: the host got it with its join"));
    std::string body =
        R"({"room_id":)" + json_string(room_id_) + R"(,"event_id":)" + json_string(found.event_id) + R"(,"state":)";
    body.reserve(body.size() + found.state.size() + found.auth_chain.size() + 32);
    body += found.state;
    body += R"(,"auth_chain":)";
    body += found.auth_chain;
    body += '}';
    answer(200, std::move(body));
  }

  void say_partial() {
    self_->request(parts_.supervisor, describe_timeout, make_local(describe_joins{room_id_}))
        .then([this](const description& d) { refuse(d.json); }, [this](const caf::error&) { refuse(""); });
  }
  void refuse(const std::string& described) {
    answer(409, error_body("M_RANVIER_PARTIAL", partial_sentence(room_id_, described)));
  }

  void answer(int status, std::string body) {
    exchange_->respond(status, std::move(body));
    held_.reset();
    self_->quit();
  }

  self_ptr self_;
  const ingress_parts parts_;
  std::shared_ptr<http_exchange> exchange_;
  std::string room_id_;
  std::int64_t wait_ms_;
  std::shared_ptr<void> held_;
  bool reading_ = false, again_ = false, over_ = false;
};

struct holder {
  holder() = default;
  static inline const char* name = "room_state";
  std::optional<room_state_call> core;
};

} // namespace

std::string partial_sentence(const std::string& room_id, const std::string& described) {
  std::string out = "the room " + room_id + " is joined partially: its full state isn't here yet";
  const auto view = nlohmann::json::parse(described, nullptr, false);
  if (!view.is_object() || !view.contains("partial_joins") || !view["partial_joins"].is_array()) return out;
  for (const auto& one : view["partial_joins"]) {
    if (!one.is_object()) continue;
    if (one.contains("reason") && one["reason"].is_string()) out += "; " + one["reason"].get<std::string>();
    std::string servers;
    if (one.contains("servers") && one["servers"].is_object())
      for (const auto& [name, server] : one["servers"].items())
        if (server.is_object() && server.contains("verdict") && server["verdict"].is_string())
          servers += (servers.empty() ? "" : ", ") + name + " " + server["verdict"].get<std::string>();
    if (!servers.empty()) out += " (" + servers + ")";
  }
  return out;
}

caf::actor spawn_room_state_call(caf::actor_system& system, ingress_parts parts,
                                 std::shared_ptr<http_exchange> exchange, std::string room_id, std::int64_t wait_ms,
                                 std::shared_ptr<void> held) {
  return system.spawn([parts = std::move(parts), exchange = std::move(exchange), room_id = std::move(room_id), wait_ms,
                       held = std::move(held)](caf::stateful_actor<holder>* self) -> caf::behavior {
    self->state.core.emplace(self, parts, exchange, room_id, wait_ms, held);
    return self->state.core->make_behavior();
  });
}

} // namespace ranvier
