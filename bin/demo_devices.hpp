#pragma once
#include "bin/sink.hpp"
#include "messages/signing.hpp"

#include <nlohmann/json.hpp>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ranvier {

/// A DeviceKeys object of a new device, signed by itself.
nlohmann::json demo_device_keys(const std::string& user, const std::string& device);

/// The device list of one user of a demo's server, as that server keeps it. Usable by several threads at a time.
class demo_devices {
public:
  explicit demo_devices(std::string user)
      : user_(std::move(user)) {}

  /// A new device; the m.device_list_update that tells of it (to be sent, or to be lost).
  nlohmann::json add(const std::string& device);
  /// While it is out of order the list can't be fetched (503).
  void out_of_order(bool is);
  /// GET /user/devices of this user; nothing: the question isn't about it.
  std::optional<sink_reply> answer(const sink_question& question) const;

private:
  const std::string user_;
  mutable std::mutex mutex_;
  nlohmann::json devices_ = nlohmann::json::array();
  std::int64_t stream_id_ = 0;
  bool out_of_order_ = false;
};

} // namespace ranvier
