#include "actors/destination_view.hpp"

#include "actors/failure_classes.hpp"

#include <algorithm>

namespace ranvier {
namespace {

nlohmann::json or_null(std::int64_t value) { return value == 0 ? nlohmann::json() : nlohmann::json(value); }
nlohmann::json or_null(const std::optional<std::int64_t>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json error_view(const std::optional<failure>& error) {
  if (!error) return nullptr;
  return {{"class", to_string(error->cls)},
          {"stage", to_string(error->stage)},
          {"status", error->status == 0 ? nlohmann::json() : nlohmann::json(error->status)},
          {"item", error->item.empty() ? nlohmann::json() : nlohmann::json(error->item)},
          {"message", error->message}};
}

nlohmann::json gate_json(const gate_view& shown) {
  return {{"state", shown.state},
          {"lanes", {{"push", shown.push}, {"pull", shown.pull}, {"devices", shown.devices}}},
          {"failing_since_ms", or_null(shown.failing_since_ms)},
          {"consecutive_failures", shown.consecutive_failures},
          {"next_attempt_ms", or_null(shown.next_attempt_ms)},
          {"interval_ms", shown.interval_ms},
          {"last_error", error_view(shown.last_error)}};
}

} // namespace

void attempt_history::add(attempt one) {
  list_.push_back(std::move(one));
  if (list_.size() > most) list_.pop_front();
}

nlohmann::json attempt_history::view() const {
  auto all = nlohmann::json::array();
  for (const auto& one : list_) {
    nlohmann::json view{{"at_ms", one.at_ms},     {"request", one.request},
                        {"outcome", one.outcome}, {"status", one.status},
                        {"took_ms", one.took_ms}, {"items", {{"pdus", one.pdus}, {"edus", one.edus}}}};
    if (!one.problem.empty()) view["problem"] = one.problem;
    if (!one.address.empty()) view["address"] = one.address;
    for (const auto& [event_id, error] : one.refused)
      view["refused"][event_id] = error;
    all.push_back(std::move(view));
  }
  return all;
}

nlohmann::json destination_view(const destination_facts& facts, std::int64_t wall_ms) {
  const auto& row = facts.row;
  nlohmann::json view{
      {"destination", row.name},
      {"gate", gate_json(facts.shown)},
      {"cursor", {{"pdu", row.at.pdu}, {"device_lists", row.at.device_lists}, {"to_device", row.at.to_device}}},
      {"head", facts.head},
      {"pending",
       {{"pdus", facts.owed.pdus},
        {"device_lists", facts.owed.device_lists},
        {"to_device", facts.owed.to_device},
        {"ephemeral", facts.ephemeral},
        {"oldest_age_ms",
         facts.owed.oldest_at_ms > 0 ? std::max<std::int64_t>(0, wall_ms - facts.owed.oldest_at_ms) : 0}}},
      {"catching_up", facts.catching_up},
      {"in_flight", nullptr},
      {"stale_users", facts.stale_users},
      {"resyncing_users", facts.resyncing_users},
      {"quarantined", row.quarantined},
      {"let_go", row.let_go},
      {"rooms", row.rooms},
      {"last_success_ms", or_null(row.gate.last_success_ms)},
      {"last_inbound_ms", or_null(row.last_inbound_ms)},
      {"resident", facts.resident},
      {"hold", nullptr}};
  if (!facts.transaction_id.empty())
    view["in_flight"] = {{"transaction_id", facts.transaction_id},
                         {"since_ms", facts.transaction_since_ms},
                         {"bytes", facts.transaction_bytes}};
  const bool over = row.hold.until_ms != 0 && row.hold.until_ms <= wall_ms; // it stays stored until the next word
  if (row.hold.set && !over) view["hold"] = {{"reason", row.hold.reason}, {"until_ms", or_null(row.hold.until_ms)}};
  return view;
}

} // namespace ranvier
