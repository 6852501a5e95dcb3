// The calls by which an operator runs the engine: probing from here, and what changes more than one gate.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"

namespace ranvier {

using namespace admin;

void admin_desk::add_run_routes() {
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("POST", base + "destinations/{name}/probe", "probe");
}

std::optional<admin_answer> admin_desk::run(const call& in) {
  const auto& name = in.route.name;
  if (name == "probe") return probe(in.route.segments.at("name"));
  return {};
}

} // namespace ranvier
