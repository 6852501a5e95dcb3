#pragma once
#include "actors/ingress.hpp"
#include "actors/join_attempt.hpp"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

namespace ranvier {

/// What the host asks about rooms and joins (API 3.3), and what other servers may not ask of a room that is joined
/// partially (P8). Lives in the ingress actor's state; calls that take long are actors of their own.
class join_desk {
public:
  join_desk(ingress_actor::pointer self, const ingress_parts& parts)
      : self_(self)
      , parts_(parts) {}

  /// Calls that may wait: joins, a room's state, an operator's word. `held` lives as long as the call.
  static bool serves(const std::string& route);
  void take(const local<incoming>& in, std::shared_ptr<void> held);
  /// GET /rooms/{id}.
  void room(const std::shared_ptr<http_exchange>& exchange);

  /// make_join, send_join, make_knock, send_knock, authenticated: 404 M_NOT_FOUND while the room is partial.
  static bool is_for_residents(const std::string& route);
  /// `known`: the room isn't partial, so the host answers for it.
  void serve(const std::shared_ptr<http_exchange>& exchange, const std::function<void()>& known);

  /// The stream moved: a partial join may have ended.
  void advanced();

private:
  void join(const local<incoming>& in, std::shared_ptr<void> held);
  void state(const std::shared_ptr<http_exchange>& exchange, std::shared_ptr<void> held);
  void order(const local<incoming>& in, std::shared_ptr<void> held);

  ingress_actor::pointer self_;
  const ingress_parts& parts_;
  std::list<std::pair<std::shared_ptr<http_exchange>, caf::actor>> waiting_; ///< state calls
};

/// POST /rooms/{id}/join, read and checked; `problem` says what is wrong, with `errcode`. Pure.
struct join_request {
  std::string problem, errcode = "M_BAD_JSON";
  join_wish wish;
  std::vector<std::string> via;
  bool partial = true;
};
join_request read_join_request(simdjson::dom::element body, const std::string& room_id, const std::string& ours);

} // namespace ranvier
