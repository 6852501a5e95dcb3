// Joins in the ledger (messages/joins.hpp).
#include "actors/ledger_core.hpp"
#include "actors/log.hpp"

namespace ranvier {

using storage::writer;

/// What a crash left of joins is told to the host before anything else happens.
void ledger_core::settle_joins() {
  std::size_t found = 0;
  const auto result = writer_.commit({[this, &found](writer& stores, std::vector<log_entry>&) {
    found = stores.joins.settle_intents(stores.inbox, settings_.wall_ms());
  }});
  settings_.inbox->publish(writer_.inbox.take_ephemeral(), writer_.inbox.bounds(), settings_.wall_ms());
  if (!result.problems.front().empty()) log_error("joins_not_settled", {{"reason", result.problems.front()}});
  else if (found > 0) log_info("joins_settled", {{"intents", std::to_string(found)}});
}

caf::typed_response_promise<done> ledger_core::begin(const local<begin_join>& what) {
  return ask_done([what](writer& stores, std::vector<log_entry>&) { stores.joins.begin(*what); });
}

caf::typed_response_promise<done> ledger_core::drop(const local<drop_join>& what) {
  return ask_done([what](writer& stores, std::vector<log_entry>&) { stores.joins.drop(what->room_id, what->user_id); });
}

caf::result<local<join_recorded>> ledger_core::record(const local<record_join>& what) {
  return ask_for<join_recorded>([this, what](writer& stores, std::vector<log_entry>& entries) {
    return stores.joins.record(*what, settings_.wall_ms(), entries);
  });
}

caf::typed_response_promise<done> ledger_core::save(const local<save_join_progress>& what) {
  return ask_done([what](writer& stores, std::vector<log_entry>&) { stores.joins.save_progress(*what); });
}

caf::result<local<partial_join_ended>> ledger_core::complete(const local<complete_join>& what) {
  return ask_for<partial_join_ended>([this, what](writer& stores, std::vector<log_entry>& entries) {
    return stores.joins.complete(*what, stores.inbox, settings_.wall_ms(), entries);
  });
}

caf::result<local<partial_join_ended>> ledger_core::end(const local<end_partial_join>& what) {
  return ask_for<partial_join_ended>([this, what](writer& stores, std::vector<log_entry>& entries) {
    return stores.joins.end(*what, stores.inbox, settings_.wall_ms(), entries);
  });
}

} // namespace ranvier
