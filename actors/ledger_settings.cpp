#include "actors/ledger.hpp"

#include <utility>

namespace ranvier {

ledger_settings ledger_settings_of(const config& from, std::string path, std::function<std::int64_t()> wall_ms,
                                   std::shared_ptr<storage::ephemeral_inbox> inbox) {
  ledger_settings out;
  out.path = std::move(path);
  out.wall_ms = std::move(wall_ms);
  out.inbox = std::move(inbox);
  out.stream_bytes = from.limits.stream_bytes;
  out.consumers = from.host.consumers;
  out.devices_per_user = from.limits.devices_per_user;
  out.display_names = from.federation.display_names;
  out.servers = {from.federation.allow, from.federation.deny};
  out.to_device_max_age_ms = from.delivery.to_device_max_age_ms;
  out.device_changes_horizon_ms = from.delivery.device_changes_horizon_ms;
  out.catch_up_events_per_room = from.delivery.catch_up_events_per_room;
  out.announce_after_ms = from.delivery.announce_after_outage_ms;
  return out;
}

} // namespace ranvier
