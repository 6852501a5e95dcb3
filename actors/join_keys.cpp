#include "actors/join_keys.hpp"

#include "actors/key_document.hpp"
#include "messages/json_slices.hpp"

namespace ranvier {

std::string notary_query(const keys_wanted& missing, std::size_t at_most) {
  std::string servers;
  std::size_t count = 0;
  for (const auto& [server, keys] : missing) {
    if (++count > at_most) break;
    std::string ids;
    for (const auto& [key_id, at_ms] : keys)
      ids += (ids.empty() ? "" : ",") + json_string(key_id) + R"(:{"minimum_valid_until_ts":)" +
             std::to_string(std::max<std::int64_t>(0, at_ms)) + "}";
    servers += (servers.empty() ? "" : ",") + json_string(server) + ":{" + ids + "}";
  }
  return canonical_json(R"({"server_keys":{)" + servers + "}}", numbers::lenient);
}

join_keys read_notary_answer(std::string_view body, const keys_wanted& missing, std::int64_t wall_ms) {
  join_keys out;
  try {
    for (const auto& [name, slice] : member_slices(body)) {
      if (name != "server_keys") continue;
      item_slices documents(slice);
      while (const auto one = documents.next()) {
        const json_document document(*one);
        const std::string server(string_member(document.root(), "server_name").value_or(""));
        const auto wanted = missing.find(server);
        if (wanted == missing.end()) continue;
        const auto read = read_key_document(*one, server, wall_ms);
        for (const auto& [key_id, at_ms] : wanted->second)
          if (const auto* key = usable_key(read.keys, key_id, at_ms, true)) out[server][key_id] = key->key;
      }
    }
  } catch (const json_problem&) {
    // What was read up to here is good.
  }
  return out;
}

} // namespace ranvier
