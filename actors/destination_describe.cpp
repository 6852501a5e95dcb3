#include "actors/destination_core.hpp"

// How a destination describes itself: the members of GET /actors, and D of API section 5 under "destination".

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto count_timeout = 5s;

} // namespace

nlohmann::json destination_core::brief_view() const {
  std::string state = "loading", busy;
  if (gate_) state = gate_->view(now()).state;
  if (in_flight_) busy = "PUT /send " + in_flight_->what.id;
  else if (reading_) busy = "reading what is owed";
  else if (!fetches_.empty()) busy = "GET /user/devices of " + fetches_.begin()->second.user;
  else if (!pulls_.empty()) busy = std::to_string(pulls_.size()) + " requests";
  auto view = facts_.view(state, busy);
  view["in_memory"] = {
      {"window", outbox_.window_items()}, {"ephemeral", outbox_.ephemeral()}, {"frozen", bool(frozen_)}};
  view["may_owe"] = owed_;
  return view;
}

destination_facts destination_core::facts(const destination_row& stored) const {
  destination_facts facts;
  facts.row = stored;
  facts.row.name = birth_.name;
  facts.row.at = outbox_.at();
  facts.row.gate = gate_->row();
  facts.row.hold = gate_->hold();
  facts.row.last_inbound_ms = std::max(stored.last_inbound_ms, row_.last_inbound_ms);
  facts.shown = gate_->view(now());
  if (!resyncs_.lane_open()) facts.shown.devices = "closed";
  facts.stale_users = resyncs_.stale();
  facts.resyncing_users = resyncs_.running();
  facts.ephemeral = outbox_.ephemeral();
  facts.resident = true;
  facts.catching_up = outbox_.state() == outbox::phase::reading || (owed_ && !gate_->open(lane::push));
  if (in_flight_) {
    facts.transaction_id = in_flight_->what.id;
    facts.transaction_since_ms = in_flight_->since_wall_ms;
    facts.transaction_bytes = in_flight_->what.body.size();
  }
  return facts;
}

caf::result<description> destination_core::describe_self(const describe& how) {
  if (how.brief || !gate_) return description{brief_view().dump()};
  auto promise = self_->make_response_promise<description>();
  auto without_counts = [this, promise](const caf::error&) mutable {
    promise.deliver(description{brief_view().dump()});
  };
  const auto reader = parts_->reader(birth_.name);
  self_->request(reader, count_timeout, make_local(load_destination{birth_.name}))
      .then(
          [this, reader, promise, without_counts](const local<loaded_destination>& stored) {
            self_->request(reader, count_timeout, make_local(count_owed{birth_.name, outbox_.at()}))
                .then(
                    [this, stored, promise](const local<owed_counts>& counts) mutable {
                      auto all = facts(stored->row);
                      all.owed = *counts;
                      all.head = stored->head;
                      auto view = brief_view();
                      view["destination"] = destination_view(all, parts_->wall_ms());
                      view["destination"]["attempts"] = attempts_.view();
                      promise.deliver(description{view.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
                    },
                    without_counts);
          },
          without_counts);
  return promise;
}

} // namespace ranvier
