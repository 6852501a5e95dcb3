#pragma once
#include "own_lists_bench.hpp"

#include <map>
#include <set>

namespace ranvier::storage {

/// Another server that follows the specification's receiver rules (L7-L12): it applies an update whose prev_ids it
/// knows and fetches the whole list otherwise. It knows the stream_id of its list and those that came before in the
/// same transaction.
class list_peer {
public:
  struct kept_list {
    std::int64_t stream_id = 0;
    std::map<std::string, std::string> devices; ///< id -> name and keys
    std::string master_key;
  };

  /// `fetch`: GET /user/devices of ours.
  template <class Fetch> void take(const std::vector<device_update>& updates, Fetch fetch) {
    std::set<std::string> gaps;
    for (const auto& one : updates) {
      auto told = read_update(one.edu);
      ++edus;
      if (gaps.contains(told.user)) continue;
      if (apply(told)) continue;
      gaps.insert(told.user);
      gap_at[told.user] = one.through;
    }
    for (const auto& user : gaps)
      resync(user, fetch(user));
  }
  void resync(const std::string& user, const std::string& answer) {
    ++fetches[user];
    lists[user] = read_list(answer);
  }
  static kept_list read_list(const std::string& answer) {
    kept_list out;
    json_document document(answer);
    out.stream_id = document.root()["stream_id"].get_int64();
    for (auto one : simdjson::dom::array(document.root()["devices"].get_array()))
      out.devices[std::string(std::string_view(one["device_id"]))] = content(one);
    if (document.root()["master_key"].error() == simdjson::SUCCESS)
      out.master_key = canonical_json(document.root()["master_key"].value());
    return out;
  }

  std::map<std::string, kept_list> lists;
  std::map<std::string, int> fetches;
  std::map<std::string, position> gap_at; ///< user -> the update that made it fetch last
  std::int64_t edus = 0;

private:
  static std::string content(simdjson::dom::element one) {
    std::string out;
    for (const char* member : {"device_display_name", "keys"})
      if (one[member].error() == simdjson::SUCCESS) out += canonical_json(one[member].value());
    return out;
  }
  bool apply(const told_update& told) {
    auto found = lists.find(told.user);
    if (told.signing) {
      if (found != lists.end()) found->second.master_key = told.keys;
      return true;
    }
    if (found == lists.end() || told.prev.empty()) return false;
    auto& list = found->second;
    for (auto id : told.prev)
      if (id != list.stream_id) return false;
    list.stream_id = told.stream_id;
    if (told.deleted) list.devices.erase(told.device);
    else list.devices[told.device] = (told.name.empty() ? "" : json_string(told.name)) + told.keys;
    return true;
  }
};

} // namespace ranvier::storage
