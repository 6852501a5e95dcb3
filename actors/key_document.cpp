#include "actors/key_document.hpp"

#include "messages/canonical_json.hpp"
#include "messages/signing.hpp"

#include <algorithm>

namespace ranvier {
namespace {

constexpr std::int64_t longest_validity_ms = 7LL * 86'400'000; // K7

bool is_ed25519(std::string_view key_id) { return key_id.starts_with("ed25519:"); }

std::vector<remote_key> current_keys(simdjson::dom::element root, const std::string& server, std::int64_t valid_until) {
  std::vector<remote_key> keys;
  simdjson::dom::object listed;
  if (root["verify_keys"].get(listed)) return keys;
  for (auto [key_id, value] : listed) {
    auto key = string_member(value, "key");
    if (is_ed25519(key_id) && key) keys.push_back({server, std::string(key_id), std::string(*key), valid_until, 0});
  }
  return keys;
}

std::vector<remote_key> old_keys(simdjson::dom::element root, const std::string& server) {
  std::vector<remote_key> keys;
  simdjson::dom::object listed;
  if (root["old_verify_keys"].get(listed)) return keys;
  for (auto [key_id, value] : listed) {
    auto key = string_member(value, "key");
    std::int64_t expired = 0;
    if (!is_ed25519(key_id) || !key || value["expired_ts"].get(expired) || expired <= 0) continue;
    keys.push_back({server, std::string(key_id), std::string(*key), 0, expired});
  }
  return keys;
}

/// Empty if at least one current key signed the document and none of them wrongly (C6).
std::string self_signature_problem(simdjson::dom::element root, const std::string& server,
                                   const std::vector<remote_key>& keys) {
  const auto bytes = canonical_json(root, numbers::lenient, {"signatures", "unsigned"});
  bool signed_once = false;
  for (const auto& key : keys) {
    simdjson::dom::element signatures;
    if (root["signatures"].get(signatures) || signatures[server].get(signatures)) break;
    auto signature = string_member(signatures, key.key_id);
    if (!signature) continue;
    if (!verify_signature(key.key, *signature, bytes)) return "its signature by " + key.key_id + " is wrong";
    signed_once = true;
  }
  return signed_once ? "" : "it isn't signed by any of its own keys";
}

} // namespace

key_document read_key_document(std::string_view body, const std::string& server, std::int64_t wall_ms) {
  key_document read;
  try {
    const json_document document(body, max_body_depth);
    const auto root = document.root();
    std::int64_t valid_until = 0;
    if (string_member(root, "server_name") != std::string_view(server)) {
      read.problem = "the key document names another server";
    } else if (root["valid_until_ts"].get(valid_until)) {
      read.problem = "the key document has no valid_until_ts";
    } else {
      read.keys = current_keys(root, server, std::min(valid_until, wall_ms + longest_validity_ms));
      read.problem = read.keys.empty() ? "the key document has no ed25519 key" : "";
      if (read.problem.empty()) {
        if (auto wrong = self_signature_problem(root, server, read.keys); !wrong.empty())
          read.problem = "the key document can't be believed: " + wrong;
      }
      if (read.problem.empty())
        for (auto& key : old_keys(root, server))
          read.keys.push_back(std::move(key));
    }
  } catch (const json_problem& problem) {
    read.problem = std::string("the key document can't be read: ") + problem.what();
  }
  if (!read.problem.empty()) read.keys.clear();
  return read;
}

const remote_key* usable_key(const std::vector<remote_key>& known, const std::string& key_id, std::int64_t valid_at_ms,
                             bool for_event) {
  for (const auto& key : known) {
    if (key.key_id != key_id) continue;
    if (key.expired_ms > 0) {
      if (for_event && (valid_at_ms == 0 || valid_at_ms <= key.expired_ms)) return &key;
      continue;
    }
    if (valid_at_ms == 0 || key.valid_until_ms >= valid_at_ms) return &key;
  }
  return nullptr;
}

} // namespace ranvier
