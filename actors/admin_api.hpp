#pragma once
#include "actors/ingress.hpp"
#include "actors/introspector.hpp"
#include "actors/net/admin_server.hpp"
#include "actors/net/audit_file.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ranvier {

struct admin_parts {
  ingress_parts common;
  std::vector<describable> actors;   ///< all single actors, for GET /actors/{id}
  std::string token;                 ///< empty: none is asked for (the Unix socket)
  resolver_actor resolver;           ///< for GET /destinations/{name}/resolve
  std::shared_ptr<audit_file> audit; ///< null: changes aren't recorded
  introspector_actor introspector;
  std::map<std::string, std::string> origins; ///< where each key of the configuration was given (config_origin.hpp)
  /// The status page of `facts` (admin_page.cpp) as HTML, the whole or only what changes; empty: there is none.
  std::function<std::string(const nlohmann::json& facts, std::int64_t now_ms, bool whole)> page;
};

/// A request that was routed.
struct admin_call {
  route_match route;
  nlohmann::json body; ///< null if there was none
  std::string who;     ///< as the caller says
  std::string parameter(const char* name) const {
    const auto at = route.query.find(name);
    return at == route.query.end() ? std::string() : at->second;
  }
};

/// The admin API (API section 5): each call asks an actor and waits for it, at most 2 s (discovery: 40 s), on a thread
/// of the admin server. Usable by several threads at a time. Must go before the actor system. Every call that changes
/// something (any but GET, unless it is a dry run) gets a line in the audit log with its outcome, whoever serves it.
class admin_desk {
public:
  admin_desk(caf::actor_system& system, admin_parts parts);
  admin_answer answer(const admin_request& request);

private:
  using call = admin_call;
  admin_answer routed(const call& in);
  admin_answer list_destinations(const call& in);
  admin_answer show_destination(const std::string& name);
  admin_answer act(const call& in);
  admin_answer find_route(const call& in);
  admin_answer stats();
  admin_answer list_stale_users(const route_match& route); // admin_lists.cpp
  admin_answer resync(const std::string& user);
  admin_answer show_actor(const std::string& id);
  void record(const call& in, const admin_answer& given); // admin_audit.cpp
  admin_answer list_audit(const call& in);
  void add_look_routes(); // admin_look.cpp
  std::optional<admin_answer> look(const call& in);
  void add_quarantine_routes(); // admin_quarantine.cpp
  admin_answer list_quarantine(const call& in);
  admin_answer change_quarantine(const call& in, bool retry);
  void add_join_routes(); // admin_joins.cpp
  std::optional<admin_answer> joins(const call& in);
  std::optional<nlohmann::json> destination(const std::string& name, bool& answered);
  admin_answer show_queue(const call& in);
  admin_answer show_rooms(const call& in);
  admin_answer show_shape(const call& in);
  admin_answer show_config();
  admin_answer events(const call& in, const std::string& destination); // admin_events.cpp
  admin_answer why(const std::string& subject);                        // admin_why.cpp
  admin_answer why_destination(const std::string& name);
  admin_answer why_event(const std::string& event_id);
  admin_answer why_room(const std::string& room_id);
  admin_answer why_user(const std::string& user);
  void add_synapse_routes(); // admin_synapse.cpp
  std::optional<admin_answer> as_synapse(const call& in);
  admin_answer synapse_destinations(const call& in);
  admin_answer synapse_rooms(const call& in, const nlohmann::json& d);
  void add_run_routes(); // admin_run.cpp
  std::optional<admin_answer> run(const call& in);
  admin_answer probe(const std::string& name); // admin_probe.cpp
  admin_answer drop(const call& in);
  admin_answer restart(const call& in);
  admin_answer drain(const call& in); // admin_drain.cpp
  nlohmann::json page_facts();        // admin_page.cpp
  admin_answer page();
  admin_answer live_page_stream();
  bool may_pass(const admin_request& request, bool& given) const;
  nlohmann::json suspects(const nlohmann::json& d);
  nlohmann::json reasons(const std::vector<std::string>& names);

  caf::actor_system& system_;
  admin_parts parts_;
  const std::int64_t started_ms_; ///< wall clock
  router router_;
};

} // namespace ranvier
