#pragma once
#include "messages/canonical_json.hpp"
#include "messages/device_lists.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranvier {

// The bodies of keys/query and keys/claim, of the host's calls and of federation, read and written. Pure.

/// Users and device ids; an empty list means all devices.
using devices_asked = std::map<std::string, std::vector<std::string>>;
/// user -> device -> algorithm
using keys_claimed = std::map<std::string, std::map<std::string, std::string>>;
/// user -> device -> key id -> key as canonical JSON
using claimed_keys = std::map<std::string, std::map<std::string, std::map<std::string, std::string>>>;

constexpr std::int64_t default_keys_timeout_ms = 10'000, longest_keys_timeout_ms = 120'000; // F1

/// A body of keys/query. What isn't a user id is passed over: it costs nobody else its answer.
struct query_read {
  devices_asked users;
  std::int64_t timeout_ms = default_keys_timeout_ms;
  std::string problem; ///< not empty: 400 M_BAD_JSON (F3)
};
query_read read_query(simdjson::dom::element body);

struct claim_read {
  keys_claimed wanted;
  std::int64_t timeout_ms = default_keys_timeout_ms;
  std::string problem;
};
claim_read read_claim(simdjson::dom::element body);

/// What we ask of another server (Q2, Q4), canonical JSON.
std::string query_text(const devices_asked& users);
std::string claim_text(const keys_claimed& wanted);

/// Another server's answer to a query: of the users that it was asked for, and only what names the right user and
/// device. A user that isn't in the answer has no entry; a device that can't be used costs only itself.
struct query_answer {
  std::map<std::string, known_keys_of_user> users;
  std::string problem; ///< not empty: it can't be used at all
};
query_answer read_query_answer(std::string_view body, const devices_asked& asked);
/// Likewise to a claim: at most one key for each device, of the algorithm that was asked for.
struct claim_answer {
  claimed_keys keys;
  std::string problem;
};
claim_answer read_claim_answer(std::string_view body, const keys_claimed& asked);

/// An answer to keys/query in the making. Users that are in nothing that was added are absent (F2).
class query_result {
public:
  /// `devices`: only these; empty: all.
  void add(const std::string& user, const known_keys_of_user& keys, const std::vector<std::string>& devices = {});
  /// Names a server whose users' keys can't be had, or may be old. The first reason stays.
  void fail(const std::string& server, const std::string& why) { failures_.try_emplace(server, why); }
  /// The client-server shape, with `failures`; without, that of federation.
  std::string text(bool with_failures = true) const;

private:
  std::map<std::string, std::map<std::string, std::string>> devices_;
  std::map<std::string, std::string> master_, self_signing_, user_signing_, failures_;
};

/// {"one_time_keys": ...}, with "failures" if there is a place for them.
std::string claim_result_text(const claimed_keys& keys, const std::map<std::string, std::string>* failures);

} // namespace ranvier
