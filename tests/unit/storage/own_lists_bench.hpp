#pragma once
#include "storage/own_lists.hpp"
#include "store_bench.hpp"

#include "messages/canonical_json.hpp"

namespace ranvier::storage {

/// DeviceKeys as a client uploads them; `more` makes another content.
inline std::string device_keys(const std::string& user, const std::string& device, const std::string& more = "x") {
  return R"({"algorithms":["m.olm.v1"],"device_id":)" + json_string(device) + R"(,"keys":{"ed25519:)" + device +
         R"(":)" + json_string(more) + R"(},"signatures":{},"user_id":)" + json_string(user) + "}";
}
inline device_record device_line(const std::string& user, const std::string& device, const std::string& keys = "") {
  device_record one;
  one.user_id = user;
  one.device_id = device;
  if (!keys.empty()) one.keys = {change<std::string>::what::given, device_keys(user, device, keys)};
  return one;
}
inline device_record rename_line(const std::string& user, const std::string& device, const std::string& name) {
  auto one = device_line(user, device);
  one.display_name = {change<std::string>::what::given, name};
  return one;
}
inline device_record deletion_line(const std::string& user, const std::string& device) {
  auto one = device_line(user, device);
  one.deleted = true;
  return one;
}
inline std::string signing_key(const std::string& user, const std::string& usage, const std::string& key) {
  return R"({"keys":{"ed25519:)" + key + R"(":)" + json_string(key) + R"(},"usage":[)" + json_string(usage) +
         R"(],"user_id":)" + json_string(user) + "}";
}
inline cross_signing_record signing_line(const std::string& user, const std::string& key) {
  cross_signing_record one;
  one.user_id = user;
  one.master_key = {change<std::string>::what::given, signing_key(user, "master", key)};
  return one;
}
inline roster_record roster_line(const std::string& room, const std::vector<std::string>& users) {
  roster_record one;
  one.room_id = room;
  for (const auto& user : users)
    one.members[user] = "join";
  return one;
}

/// What a device_list_update says, read back.
struct told_update {
  std::string user, device, keys, name;
  std::int64_t stream_id = 0;
  std::vector<std::int64_t> prev;
  bool has_prev = false, deleted = false, signing = false;
};
inline told_update read_update(const std::string& edu) {
  told_update out;
  json_document document(edu);
  auto content = document.root()["content"];
  out.signing = std::string_view(document.root()["edu_type"]) == "m.signing_key_update";
  out.user = std::string(std::string_view(content["user_id"]));
  if (out.signing) {
    if (content["master_key"].error() == simdjson::SUCCESS) out.keys = canonical_json(content["master_key"].value());
    return out;
  }
  out.device = std::string(std::string_view(content["device_id"]));
  out.stream_id = content["stream_id"].get_int64();
  if (content["prev_id"].error() == simdjson::SUCCESS) {
    out.has_prev = true;
    for (auto id : simdjson::dom::array(content["prev_id"].get_array()))
      out.prev.push_back(id.get_int64());
  }
  if (content["keys"].error() == simdjson::SUCCESS) out.keys = canonical_json(content["keys"].value());
  if (content["deleted"].error() == simdjson::SUCCESS) out.deleted = content["deleted"].get_bool();
  if (content["device_display_name"].error() == simdjson::SUCCESS)
    out.name = std::string(std::string_view(content["device_display_name"]));
  return out;
}

/// A store_bench with the questions about our users' lists.
class list_bench : public store_bench {
public:
  explicit list_bench(bool display_names = true)
      : names_(display_names) {}

  own_lists lists() { return own_lists(*reader, names_); }
  read_device_updates question(const std::string& server) {
    read_device_updates ask;
    ask.destination = server;
    ask.after = at(server).device_lists;
    ask.upto = head();
    ask.shares_before_ms = now_ms;
    return ask;
  }
  device_updates page(const read_device_updates& ask) { return lists().updates(ask); }
  device_updates page(const std::string& server) { return page(question(server)); }
  /// The page in short: device:stream_id<prev_ids, versions counted from the user's first (which is 1).
  std::string brief(const device_updates& page) {
    std::string out;
    for (const auto& one : page.list) {
      auto told = read_update(one.edu);
      auto first = reader->integer("SELECT first_version - 1 FROM local_user WHERE user = ?", told.user).value_or(0);
      out += out.empty() ? "" : " ";
      if (told.signing) {
        out += "signing";
        continue;
      }
      out += (told.deleted ? "-" : "") + told.device + ":" + std::to_string(told.stream_id - first) + "<";
      for (auto id : told.prev)
        out += std::to_string(id - first);
    }
    return out;
  }
  std::string brief(const std::string& server) { return brief(page(server)); }
  /// Reads a page and acknowledges it, as a server that is up does.
  std::string deliver(const std::string& server) {
    auto whole = page(server);
    acknowledge(server, whole.through);
    return brief(whole);
  }

private:
  bool names_;
};

} // namespace ranvier::storage
