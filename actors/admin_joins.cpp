// Partial joins as an operator sees them, hurries them or gives them up (API section 5).
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/joins.hpp"

namespace ranvier {

using namespace admin;

void admin_desk::add_join_routes() {
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("GET", base + "partial_joins", "partial_joins");
  router_.add("POST", base + "partial_joins/{room_id}/retry", "partial_join_retry");
  router_.add("POST", base + "partial_joins/{room_id}/abandon", "partial_join_abandon");
}

/// `abandon` needs a reason: the host is told it, and whoever looks for the room later.
std::optional<admin_answer> admin_desk::joins(const call& in) {
  const auto& name = in.route.name;
  if (name == "partial_joins") {
    auto got = ask<description>(system_, parts_.common.supervisor, make_local(describe_joins{}));
    return got ? admin_answer{200, std::move(got->json)} : busy();
  }
  if (name != "partial_join_retry" && name != "partial_join_abandon") return {};
  operate_join order{in.route.segments.at("room_id"), name == "partial_join_retry" ? "retry" : "abandon", "", in.who};
  if (in.body.is_object() && in.body.contains("reason") && !in.body["reason"].is_null()) {
    if (!in.body["reason"].is_string()) return refuse(400, "M_INVALID_PARAM", "'reason' must be a string");
    order.reason = in.body["reason"].get<std::string>();
  }
  if (order.verb == "abandon" && order.reason.empty())
    return refuse(400, "M_MISSING_PARAM", "to abandon a join needs a 'reason': the host is told it");
  const auto carried_out = ask<done>(system_, parts_.common.supervisor, order);
  if (!carried_out) return busy();
  if (!carried_out->ok && carried_out->problem.starts_with("no partial join"))
    return refuse(404, "M_NOT_FOUND", carried_out->problem);
  if (!carried_out->ok) return refuse(409, "M_RANVIER_NOT_DONE", carried_out->problem);
  return answer_with({{"ok", true}, {"room_id", order.room_id}, {"done", order.verb}});
}

} // namespace ranvier
