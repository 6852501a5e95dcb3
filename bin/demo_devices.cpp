#include "bin/demo_devices.hpp"

#include "messages/ids.hpp"

namespace ranvier {

using nlohmann::json;

json demo_device_keys(const std::string& user, const std::string& device) {
  // The key's name is the device's, so that it signs as that device does.
  const auto key = signing_key::from_seed(device, sha256(signing_key::generate().file_text()));
  const json keys{
      {"user_id", user},
      {"device_id", device},
      {"algorithms", {"m.olm.v1.curve25519-aes-sha2", "m.megolm.v1.aes-sha2"}},
      {"keys", {{"ed25519:" + device, key.public_key()}, {"curve25519:" + device, base64(sha256(key.public_key()))}}}};
  return json::parse(sign_json(keys.dump(), user, key));
}

json demo_devices::add(const std::string& device) {
  std::lock_guard lock(mutex_);
  const auto keys = demo_device_keys(user_, device);
  devices_.push_back({{"device_id", device}, {"keys", keys}});
  const auto before = stream_id_++;
  return {{"edu_type", "m.device_list_update"},
          {"content",
           {{"user_id", user_},
            {"device_id", device},
            {"stream_id", stream_id_},
            {"prev_id", before == 0 ? json::array() : json::array({before})},
            {"keys", keys}}}};
}

void demo_devices::out_of_order(bool is) {
  std::lock_guard lock(mutex_);
  out_of_order_ = is;
}

std::optional<sink_reply> demo_devices::answer(const sink_question& question) const {
  const std::string path = "/_matrix/federation/v1/user/devices/";
  if (!question.path.starts_with(path) || percent_decode(question.path.substr(path.size())) != user_) return {};
  std::lock_guard lock(mutex_);
  if (out_of_order_) return sink_reply{503, R"({"errcode":"M_UNKNOWN","error":"the database is being repaired"})"};
  return sink_reply{200, json{{"user_id", user_}, {"stream_id", stream_id_}, {"devices", devices_}}.dump()};
}

} // namespace ranvier
