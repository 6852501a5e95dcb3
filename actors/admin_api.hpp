#pragma once
#include "actors/ingress.hpp"
#include "actors/net/admin_server.hpp"

#include <string>
#include <vector>

namespace ranvier {

struct admin_parts {
  ingress_parts common;
  std::vector<describable> actors; ///< all single actors, for GET /actors/{id}
  std::string token;               ///< empty: none is asked for (the Unix socket)
  resolver_actor resolver;         ///< for GET /destinations/{name}/resolve
};

/// The admin API (API section 5): each call asks an actor and waits for it, at most 2 s (discovery: 40 s), on a thread
/// of the admin server. Usable by several threads at a time. Must go before the actor system.
class admin_desk {
public:
  admin_desk(caf::actor_system& system, admin_parts parts);
  admin_answer answer(const admin_request& request);

private:
  struct call; ///< a request that was routed
  admin_answer routed(const call& in);
  admin_answer list_destinations(const call& in);
  admin_answer show_destination(const std::string& name);
  admin_answer act(const call& in);
  admin_answer find_route(const call& in);
  admin_answer stats();
  admin_answer list_stale_users(const route_match& route); // admin_lists.cpp
  admin_answer resync(const std::string& user);
  admin_answer show_actor(const std::string& id);

  caf::actor_system& system_;
  admin_parts parts_;
  const std::int64_t started_ms_; ///< wall clock
  router router_;
};

} // namespace ranvier
