#pragma once
#include "messages/records.hpp"
#include "storage/event_log.hpp"

namespace ranvier::storage {

/// Devices, cross-signing keys and one-time keys of our own users, as the host feeds them. A change that changes
/// nothing writes nothing; one that does stands in the log as an entry (DESIGN section 7).
class device_store {
public:
  device_store(database& db, event_log& log)
      : db_(db)
      , log_(log) {}

  void apply(const device_record& what, std::int64_t now_ms);
  void apply(const cross_signing_record& what, std::int64_t now_ms);
  void apply(const one_time_keys_record& what);

private:
  database& db_;
  event_log& log_;
};

} // namespace ranvier::storage
