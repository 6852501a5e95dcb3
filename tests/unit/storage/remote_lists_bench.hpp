#pragma once
#include "store_bench.hpp"

#include <nlohmann/json.hpp>

namespace ranvier::storage {

/// A store in which our alice and bob of remote.test share a room, with short words for what comes and what is known.
class lists_bench : public store_bench {
public:
  static inline const std::string alice = "@a:us.test", bob = "@b:remote.test", room = "!r";

  explicit lists_bench(bool shared = true) {
    if (!shared) return;
    feed(member_line(room, alice, "join"));
    feed(member_line(room, bob, "join"));
    told(); // of the joins
  }

  /// DeviceKeys of a device, told apart by `word`.
  static std::string keys_of(const std::string& device, const std::string& word = "k") {
    return R"({"device_id":")" + device + R"(","keys":{"ed25519:)" + device + "\":\"" + word + "\"}}";
  }
  static device_list_edu update(std::int64_t stream_id, std::vector<std::int64_t> prev, const std::string& device,
                                const std::string& word = "k") {
    return {bob, device, stream_id, std::move(prev), false, keys_of(device, word), ""};
  }
  static device_list_edu deletion(std::int64_t stream_id, std::vector<std::int64_t> prev, const std::string& device) {
    return {bob, device, stream_id, std::move(prev), true, "", ""};
  }

  /// One inbound transaction. The stale entries stand in `last.entries`.
  void take(std::vector<inbound_device_change> changes, const std::string& origin = "remote.test") {
    write([&](writer& to, auto& entries) { to.lists.take(origin, changes, now_ms, entries); });
  }
  device_list_saved save(save_device_list what) {
    device_list_saved out;
    write([&](writer& to, auto& entries) { out = to.lists.save(what, now_ms, entries); });
    return out;
  }
  static save_device_list fetched(std::int64_t marks, std::int64_t stream_id, std::vector<std::string> devices,
                                  const std::string& user = bob) {
    save_device_list out;
    out.user = user;
    out.marks = marks;
    out.is = save_device_list::outcome::list;
    out.stream_id = stream_id;
    for (auto& device : devices)
      out.devices.push_back({device, keys_of(device), ""});
    return out;
  }
  static save_device_list failure(std::int64_t marks, save_device_list::outcome is, const std::string& problem) {
    save_device_list out;
    out.user = bob;
    out.marks = marks;
    out.is = is;
    out.problem = problem;
    return out;
  }
  void mark(const std::string& cause, const std::string& user = bob) {
    write([&](writer& to, auto& entries) { to.lists.mark({{user}, cause}, now_ms, entries); });
  }

  known_keys_of_user known(const std::string& user = bob) { return remote_list_reader(*reader).keys(user, {}); }
  /// Device ids held, with blanks between them.
  std::string devices(const std::string& user = bob) {
    std::string out;
    auto rows = reader->ask("SELECT device FROM remote_device WHERE user = ? ORDER BY device", user);
    while (rows.step())
      out += (out.empty() ? "" : " ") + rows.text(0);
    return out;
  }
  std::vector<stale_user> stale(const std::string& server = "") {
    return remote_list_reader(*reader).stale(server).list;
  }
  /// The marks of a user that is stale, or -1.
  std::int64_t marks(const std::string& user = bob) {
    for (const auto& one : stale())
      if (one.user == user) return one.marks;
    return -1;
  }
  /// Stale entries of the last write: "user@marks", with blanks between them.
  std::string to_fetch() {
    std::string out;
    for (const auto& entry : last.entries)
      if (entry.kind == entry_kind::stale) out += (out.empty() ? "" : " ") + entry.subject;
    return out;
  }
  /// device_lists items that were appended since the last call, as JSON.
  std::vector<nlohmann::json> told() {
    std::vector<nlohmann::json> out;
    for (const auto& item : read_stream(*reader, seen_, 1'000'000'000, 1'000'000)) {
      seen_ = item.pos;
      if (item.kind == "device_lists") out.push_back(nlohmann::json::parse(item.json));
    }
    return out;
  }
  /// How often `user` stands in `changed` of the items since the last call.
  int told_changed(const std::string& user = bob) {
    int n = 0;
    for (const auto& item : told())
      for (const auto& one : item["changed"])
        n += one == user;
    return n;
  }

private:
  position seen_ = 0;
};

} // namespace ranvier::storage
