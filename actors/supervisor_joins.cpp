// Partial joins in the supervisor: what is shown of them, and an operator's word.
#include "actors/supervisor_core.hpp"

#include "messages/joins.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 10s;

nlohmann::json view_of(const partial_join_row& row) {
  auto servers = nlohmann::json::object();
  for (const auto& name : row.servers)
    servers[name] = {{"verdict", nullptr}, {"next_attempt_ms", nullptr}};
  return {{"room_id", row.room_id},       {"state", "waiting"},           {"since_ms", row.since_ms},
          {"joined_via", row.joined_via}, {"users", row.users},           {"event_id", row.event_id},
          {"generation", row.generation}, {"servers", std::move(servers)}};
}

} // namespace

caf::result<description> supervisor_core::describe_partial_joins(const local<describe_joins>& which) {
  auto promise = self_->make_response_promise<description>();
  self_
      ->request(parts_.destinations->reader(which->room_id), store_timeout,
                make_local(list_partial_joins{which->room_id}))
      .then(
          [promise](const local<partial_joins>& found) mutable {
            auto list = nlohmann::json::array();
            for (const auto& row : found->rows)
              list.push_back(view_of(row));
            promise.deliver(description{nlohmann::json{{"partial_joins", std::move(list)}}.dump(
                -1, ' ', false, nlohmann::json::error_handler_t::replace)});
          },
          [promise](caf::error& problem) mutable { promise.deliver(std::move(problem)); });
  return promise;
}

caf::result<done> supervisor_core::pass_on(const operate_join& order) {
  return done{false, "no partial join of " + order.room_id + " is under way"};
}

} // namespace ranvier
