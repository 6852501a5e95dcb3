#pragma once
#include "messages/device_lists.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ranvier::sim {

/// Device id -> what is known of it: the text of its key, and its name.
using device_texts = std::map<std::string, std::string>;

/// DeviceKeys whose one key is this text.
nlohmann::json device_keys(const std::string& user, const std::string& device, const std::string& key);
/// Of one device, from its keys (an object or null) and its name.
std::string text_of_device(const nlohmann::json& keys, const std::string& device, const std::string& name);

/// What a peer believes of one of our users, by the words of the protocol alone (U10, L7-L12): an update whose
/// predecessors it knows is applied, anything else means that the list must be fetched.
struct told_list {
  bool held = false, stale = false;
  std::set<std::int64_t> seen; ///< stream ids
  device_texts devices;

  /// The content of a m.device_list_update. True if it makes a fetch necessary.
  bool take(const nlohmann::json& content);
  /// The answer to GET /user/devices.
  void take_list(const nlohmann::json& body);
};

/// The devices of a user of a peer, as its own server has them.
struct device_book {
  std::int64_t stream_id = 0;
  device_texts devices;                    ///< device -> key text + "/" + name
  std::map<std::string, std::string> keys; ///< device -> key text

  /// A change, as the update that tells it; `key` empty: the device is deleted.
  device_list_edu change(const std::string& user, const std::string& device, const std::string& key,
                         const std::string& name);
  /// GET /user/devices/{user} (Q1).
  std::string list(const std::string& user) const;
};

} // namespace ranvier::sim
