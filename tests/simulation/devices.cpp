#include "tests/simulation/devices.hpp"

#include <algorithm>

namespace ranvier::sim {

nlohmann::json device_keys(const std::string& user, const std::string& device, const std::string& key) {
  return {{"user_id", user},
          {"device_id", device},
          {"algorithms", {"m.olm.v1.curve25519-aes-sha2"}},
          {"keys", {{"ed25519:" + device, key}}},
          {"signatures", nlohmann::json::object()}};
}

std::string text_of_device(const nlohmann::json& keys, const std::string& device, const std::string& name) {
  const std::string key = keys.is_object() ? keys["keys"].value("ed25519:" + device, "") : "";
  return key + "/" + name;
}

bool told_list::take(const nlohmann::json& content) {
  const auto id = content.value("stream_id", std::int64_t(0));
  if (held && seen.count(id) > 0) return stale; // it came again
  const auto before = content.value("prev_id", std::vector<std::int64_t>{});
  const bool known = std::all_of(before.begin(), before.end(), [&](auto one) { return seen.count(one) > 0; });
  if (!held || stale || !known || (before.empty() && !seen.empty())) {
    stale = true;
    return true;
  }
  seen.insert(id);
  const auto device = content.value("device_id", "");
  if (content.value("deleted", false)) devices.erase(device);
  else
    devices[device] = text_of_device(content.value("keys", nlohmann::json()), device,
                                     content.value("device_display_name", std::string()));
  return false;
}

void told_list::take_list(const nlohmann::json& body) {
  held = true;
  stale = false;
  seen = {body.value("stream_id", std::int64_t(0))};
  devices.clear();
  for (const auto& one : body.value("devices", nlohmann::json::array())) {
    const auto device = one.value("device_id", "");
    devices[device] =
        text_of_device(one.value("keys", nlohmann::json()), device, one.value("device_display_name", std::string()));
  }
}

device_list_edu device_book::change(const std::string& user, const std::string& device, const std::string& key,
                                    const std::string& name) {
  device_list_edu out;
  out.user = user;
  out.device = device;
  if (stream_id > 0) out.prev_ids = {stream_id};
  out.stream_id = ++stream_id;
  out.deleted = key.empty();
  if (out.deleted) {
    devices.erase(device);
    keys.erase(device);
    return out;
  }
  keys[device] = key;
  devices[device] = key + "/" + name;
  out.keys = device_keys(user, device, key).dump(); // nlohmann's objects are sorted: canonical as it is
  out.display_name = name;
  return out;
}

std::string device_book::list(const std::string& user) const {
  nlohmann::json out{{"user_id", user}, {"stream_id", stream_id}, {"devices", nlohmann::json::array()}};
  for (const auto& [device, key] : keys) {
    nlohmann::json one{{"device_id", device}, {"keys", device_keys(user, device, key)}};
    one["device_display_name"] = devices.at(device).substr(devices.at(device).find('/') + 1);
    out["devices"].push_back(std::move(one));
  }
  return out.dump();
}

} // namespace ranvier::sim
