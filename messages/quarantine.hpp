#pragma once
#include "messages/log_entry.hpp"
#include "messages/shared_text.hpp"

#include <cstdint>
#include <string>

namespace ranvier {

/// What an item of a transaction is, for the quarantine (API section 5).
enum class item_kind : std::uint8_t { pdu, to_device, device_list, ephemeral };

/// One item that a server refuses, as it stood in the transaction.
struct refused_item {
  item_kind kind = item_kind::pdu;
  position pos = 0;     ///< in the log; of a retried item, where it once stood
  std::string name;     ///< event id, message id or user, as far as the transaction knows it
  shared_text body;     ///< canonical JSON of the PDU or EDU
  std::int64_t row = 0; ///< of the quarantine, if it was retried from there
};

/// A refused item with the server's answer to it: set aside in one commit with the step of the cursor.
struct set_aside_item {
  refused_item item;
  int status = 0;
  std::string message; ///< the server's words
};

/// An item of the quarantine that an operator wants sent again.
struct retried_item {
  std::int64_t row = 0;
  refused_item item;
};

/// A row of GET /quarantine.
struct quarantine_row {
  std::int64_t row = 0;
  std::string destination, name;
  item_kind kind = item_kind::pdu;
  std::int64_t since_ms = 0; ///< wall clock
  int status = 0;
  std::string message;
};

inline const char* to_string(item_kind kind) {
  switch (kind) {
  case item_kind::pdu:
    return "pdu";
  case item_kind::to_device:
    return "to_device";
  case item_kind::device_list:
    return "device_list";
  case item_kind::ephemeral:
    break;
  }
  return "ephemeral";
}

} // namespace ranvier
