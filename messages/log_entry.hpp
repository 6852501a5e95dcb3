#pragma once
#include "messages/shared_text.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// A place in the log. Positions only grow and are given out by the store; 0 is before everything.
using position = std::int64_t;

/// What happened. `ephemeral` never stands in the log and has no position of its own; `stale` neither: the device list
/// of a remote user must be fetched from its server (the mark stands with the user). `partial_join` neither: a partial
/// join of that room began or ended (the store says which); its end is told to those who are owed what they lacked.
enum class entry_kind : std::uint8_t { pdu, to_device, device, signing, share, ephemeral, stale, partial_join };

/// One thing that happened and the servers that it is owed to.
struct log_entry {
  entry_kind kind = entry_kind::pdu;
  position pos = 0;
  std::string room_id; ///< pdu, share, partial_join, ephemeral of a room; else empty
  std::string subject; ///< pdu: event id. to_device: message id. device, signing, share, stale: user id. ephemeral: key
  std::string detail;  ///< device: device id. ephemeral: edu_type. Else empty
  shared_text body;    ///< pdu: the event, canonical JSON. to_device, ephemeral: the whole EDU, canonical JSON
  std::int64_t at_ms = 0;                                  ///< wall clock when it was appended
  std::shared_ptr<const std::vector<std::string>> servers; ///< whom it is owed to; never null
  std::int64_t marks = 0;                                  ///< stale: how often the list was marked so far
};

} // namespace ranvier
