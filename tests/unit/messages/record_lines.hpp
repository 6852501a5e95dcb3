#pragma once
#include "messages/event.hpp"
#include "messages/records.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

// Feed lines for the tests of records: a good one of each kind, and what a bad one is answered.

namespace ranvier::lines {

using nlohmann::json;

inline constexpr std::string_view us = "us.test";

inline feed_line parse(const json& line) { return parse_feed_line(line.dump(), 7, us); }

/// The record of a line that must be good.
template <class T> T good(const json& line) {
  auto parsed = parse(line);
  if (const auto* problem = std::get_if<record_problem>(&parsed.what)) FAIL(problem->errcode << ": " << problem->error);
  const auto* any = std::get_if<record>(&parsed.what);
  REQUIRE(any);
  const auto* one = std::get_if<T>(any);
  REQUIRE(one);
  return *one;
}

inline record_problem bad(std::string_view line) {
  auto parsed = parse_feed_line(line, 1, us);
  const auto* problem = std::get_if<record_problem>(&parsed.what);
  if (!problem) return {"accepted", "accepted"};
  return *problem;
}
inline record_problem bad(const json& line) { return bad(std::string_view(line.dump())); }

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `base` with the members of `changes`; a member "-name" is taken out.
inline json with(json base, const json& changes) {
  for (const auto& [key, value] : changes.items()) {
    if (key.starts_with('-')) base.erase(key.substr(1));
    else base[key] = value;
  }
  return base;
}

struct refusal {
  json line;
  std::string errcode, says;
};
inline void check_refused(const std::vector<refusal>& rows) {
  for (const auto& [line, errcode, says] : rows) {
    auto problem = bad(line);
    CAPTURE(line.dump().substr(0, 300));
    CAPTURE(problem.error);
    CHECK(problem.errcode == errcode);
    CHECK(has(problem.error, says));
  }
}

inline json event(const json& changes = json::object()) {
  return with({{"type", "m.room.message"},
               {"sender", "@a:us.test"},
               {"room_id", "!r:us.test"},
               {"content", {{"body", "hi"}}},
               {"origin_server_ts", 5},
               {"depth", 1},
               {"prev_events", json::array()},
               {"auth_events", json::array()},
               {"hashes", {{"sha256", "x"}}},
               {"signatures", {{"us.test", {{"ed25519:1", "x"}}}}}},
              changes);
}
inline json pdu(const json& changes = json::object()) {
  return with({{"kind", "pdu"}, {"event_id", "$e"}, {"event", event()}}, changes);
}
inline std::string id_in(const json& value, std::string_view version) {
  json_document document(value.dump());
  return event_id_of(document.root(), *rules_of(version));
}

inline json to_device(const json& changes = json::object()) {
  return with({{"kind", "to_device"},
               {"sender", "@a:us.test"},
               {"type", "m.x"},
               {"message_id", "id1"},
               {"messages", {{"@b:r.test", {{"D", {{"x", 1}}}}}}}},
              changes);
}

inline json device_keys(const json& changes = json::object()) {
  return with({{"user_id", "@a:us.test"},
               {"device_id", "D"},
               {"algorithms", {"m.olm"}},
               {"keys", {{"ed25519:D", "k"}}},
               {"signatures", {{"@a:us.test", {{"ed25519:D", "s"}}}}}},
              changes);
}
inline json device(const json& changes = json::object()) {
  return with({{"kind", "device"}, {"user_id", "@a:us.test"}, {"device_id", "D"}, {"keys", device_keys()}}, changes);
}
inline json cross_key(const char* usage, const json& changes = json::object()) {
  return with({{"user_id", "@a:us.test"},
               {"usage", {usage}},
               {"keys", {{"ed25519:PUB", "PUB"}}},
               {"signatures", {{"@a:us.test", {{"ed25519:M", "s"}}}}}},
              changes);
}

inline json nested(int depth) {
  json value = 1;
  for (int i = 1; i < depth; ++i)
    value = json::array({value});
  return value;
}

} // namespace ranvier::lines
