#include "actors/inbound_devices.hpp"

#include "actors/inbound.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::string origin = "remote.test", us = "ours.test", bob = "@bob:remote.test";

json good_keys() {
  return {{"user_id", bob},
          {"device_id", "D1"},
          {"algorithms", {"m.olm.v1"}},
          {"keys", {{"ed25519:D1", "k"}}},
          {"signatures", {{bob, {{"ed25519:D1", "s"}}}}}};
}
json good_update() {
  return {{"user_id", bob},    {"device_id", "D1"},   {"stream_id", 7},
          {"prev_id", {5, 6}}, {"keys", good_keys()}, {"device_display_name", "phone"}};
}
json with(json content, const std::string& member, const json& value) {
  content[member] = value;
  return content;
}
json without(json content, const std::string& member) {
  content.erase(member);
  return content;
}
json nested(int levels) {
  json out = 1;
  for (int i = 1; i < levels; ++i)
    out = {{"a", out}};
  return out;
}

device_verdict read(const json& content) {
  const json_document document(content.dump());
  return read_device_list_update(document.root(), origin);
}
device_verdict read_signing(const json& content) {
  const json_document document(content.dump());
  return read_signing_key_update(document.root(), origin);
}

/// The whole transaction's result.
inbound_result judge(const json& pdus, const json& edus, const std::string& version = "") {
  const json_document document(json{{"pdus", pdus}, {"edus", edus}}.dump());
  inbound_judge judge_of(open_transaction(document.root(), origin), origin, us);
  room_book rooms;
  for (const auto& id : judge_of.rooms())
    rooms[id] = {version, ""};
  key_book keys;
  for (const auto& asked : judge_of.look(rooms))
    keys[asked] = "";
  return judge_of.judge(keys);
}
json edu(const std::string& type, const json& content) { return {{"edu_type", type}, {"content", content}}; }

/// Mentions as "user device", with commas between them.
std::string mentions(const inbound_result& from) {
  std::string out;
  for (const auto& change : from.device_changes)
    if (const auto* one = std::get_if<device_mention>(&change))
      out += (out.empty() ? "" : ", ") + one->user + " " + one->device;
  return out;
}

} // namespace

TEST_CASE("U10: an update in full, and the least of one") {
  const auto full = read(good_update());
  REQUIRE(full.change);
  CHECK(full.problem == "");
  const auto& edu = std::get<device_list_edu>(*full.change);
  CHECK(edu.user == bob);
  CHECK(edu.device == "D1");
  CHECK(edu.stream_id == 7);
  CHECK(edu.prev_ids == std::vector<std::int64_t>{5, 6});
  CHECK(edu.keys == good_keys().dump());
  CHECK(edu.display_name == "phone");
  CHECK_FALSE(edu.deleted);
  const auto least = read({{"user_id", bob}, {"device_id", "D1"}, {"stream_id", 1}});
  REQUIRE(least.change);
  CHECK(std::get<device_list_edu>(*least.change).prev_ids.empty());
  CHECK(std::get<device_list_edu>(*least.change).keys == "");
}

TEST_CASE("U11: a deletion has neither keys nor name, whatever it says") {
  const auto gone = read(with(good_update(), "deleted", true));
  REQUIRE(gone.change);
  CHECK(std::get<device_list_edu>(*gone.change).deleted);
  CHECK(std::get<device_list_edu>(*gone.change).keys == "");
  CHECK(std::get<device_list_edu>(*gone.change).display_name == "");
}

TEST_CASE("L18: what is lenient: null is absent, keys may have any shape, more members may be there") {
  struct row {
    json content;
    std::string keys;
  };
  for (const auto& [content, keys] :
       std::vector<row>{{with(good_update(), "keys", nullptr), ""},
                        {without(good_update(), "keys"), ""},
                        {with(good_update(), "keys", {{"device_keys", json::object()}}), R"({"device_keys":{}})"},
                        {with(good_update(), "keys", json::object()), "{}"},
                        {with(good_update(), "keys", {{"signatures", 7}}), R"({"signatures":7})"},
                        {with(good_update(), "keys", nested(10)), nested(10).dump()},
                        {with(with(good_update(), "origin", "x"), "org.more", 1), good_keys().dump()},
                        {with(good_update(), "prev_id", nullptr), good_keys().dump()},
                        {with(good_update(), "deleted", nullptr), good_keys().dump()},
                        {with(good_update(), "device_display_name", nullptr), good_keys().dump()},
                        {with(good_update(), "device_display_name", ""), good_keys().dump()}}) {
    CAPTURE(content.dump());
    const auto out = read(content);
    CHECK(out.problem == "");
    REQUIRE(out.change);
    REQUIRE(std::holds_alternative<device_list_edu>(*out.change));
    CHECK(std::get<device_list_edu>(*out.change).keys == keys);
  }
}

TEST_CASE("an update that can't be used as it came means that the list must be fetched") {
  struct row {
    json content;
    std::string says;
  };
  const std::string nul("a\0b", 3);
  for (const auto& [content, says] : std::vector<row>{
           {without(good_update(), "device_id"), "device_id must be a text of 1 to 255 bytes without NUL"},
           {with(good_update(), "device_id", ""), "device_id must"},
           {with(good_update(), "device_id", 7), "device_id must"},
           {with(good_update(), "device_id", std::string(256, 'd')), "device_id must"},
           {with(good_update(), "device_id", nul), "device_id must"},
           {without(good_update(), "stream_id"), "stream_id is missing or is no integer"},
           {with(good_update(), "stream_id", "7"), "stream_id"},
           {with(good_update(), "stream_id", 7.5), "stream_id"},
           {with(good_update(), "prev_id", 6), "prev_id is no list of integers"},
           {with(good_update(), "prev_id", {6, "5"}), "prev_id"},
           {with(good_update(), "deleted", "yes"), "deleted is no boolean"},
           {with(good_update(), "device_display_name", 7), "device_display_name"},
           {with(good_update(), "device_display_name", nul), "device_display_name"},
           {with(good_update(), "device_display_name", std::string(65'537, 'n')), "device_display_name"},
           {with(good_update(), "keys", json::array()), "keys that are no object"},
           {with(good_update(), "keys", "text"), "keys that are no object"},
           {with(good_update(), "keys", with(good_keys(), "user_id", "@eve:remote.test")), "keys of another user"},
           {with(good_update(), "keys", with(good_keys(), "user_id", 7)), "keys of another user"},
           {with(good_update(), "keys", with(good_keys(), "device_id", "D2")), "keys of another device"},
           {with(good_update(), "keys", nested(11)), "nested more than 10 levels deep"},
           {with(good_update(), "keys", with(good_keys(), "x", nul)), "keys with a NUL character"},
           {with(good_update(), "keys", {{nul, 1}}), "keys with a NUL character"},
           {with(good_update(), "keys", with(good_keys(), "x", 1.5)), "keys that nobody can have signed"},
           {with(good_update(), "keys", with(good_keys(), "x", std::string(70'000, 'x'))), "more than 65536 bytes"}}) {
    CAPTURE(content.dump().substr(0, 200));
    const auto out = read(content);
    REQUIRE(out.change);
    REQUIRE(std::holds_alternative<unusable_update>(*out.change));
    const auto& unusable = std::get<unusable_update>(*out.change);
    CHECK(unusable.user == bob);
    CHECK(unusable.why.find(says) != std::string::npos);
    CHECK(out.problem.find(says) != std::string::npos);
    CHECK(out.problem.size() < 300); // never what it holds
  }
}

TEST_CASE("N6, L13: updates for users of other servers, or whose ids are no ids, are dropped") {
  for (const auto& user : {json("@bob:other.test"), json("@bob:remote.test:8448"), json("bob"), json(7), json(nullptr),
                           json("@:remote.test"), json("@b b:remote.test"), json("@b\u00f6:remote.test")}) {
    CAPTURE(user.dump());
    for (const auto& out : {read(with(good_update(), "user_id", user)),
                            read_signing({{"user_id", user}, {"master_key", {{"keys", {{"ed25519:M", "M"}}}}}})}) {
      CHECK_FALSE(out.change);
      CHECK(out.problem != "");
    }
  }
}

TEST_CASE("U12: signing keys, one or both; never the user-signing key") {
  const json key = {{"user_id", bob}, {"usage", {"master"}}, {"keys", {{"ed25519:M", "M"}}}};
  const auto both =
      read_signing({{"user_id", bob}, {"master_key", key}, {"self_signing_key", key}, {"user_signing_key", key}});
  REQUIRE(both.change);
  CHECK(std::get<signing_key_edu>(*both.change).master_key == key.dump());
  CHECK(std::get<signing_key_edu>(*both.change).self_signing_key == key.dump());
  const auto one = read_signing({{"user_id", bob}, {"master_key", nullptr}, {"self_signing_key", key}});
  REQUIRE(one.change);
  CHECK(std::get<signing_key_edu>(*one.change).master_key == "");
  CHECK_FALSE(read_signing({{"user_id", bob}}).change);
  CHECK_FALSE(read_signing({{"user_id", bob}, {"user_signing_key", key}}).change);
  // U13: each must have exactly one key.
  for (const auto& bad : {json(7), json::array(), json::object(), with(key, "keys", json::object()),
                          with(key, "keys", {{"a", "b"}, {"c", "d"}}), with(key, "keys", {{"a", 1}}),
                          with(key, "user_id", "@eve:remote.test"), with(key, "x", std::string("\0", 1)),
                          with(key, "x", std::string(70'000, 'x'))}) {
    CAPTURE(bad.dump().substr(0, 100));
    const auto out = read_signing({{"user_id", bob}, {"master_key", bad}, {"self_signing_key", key}});
    REQUIRE(out.change);
    CHECK(std::holds_alternative<unusable_update>(*out.change));
  }
}

TEST_CASE("a transaction's updates go on in their order; one that is bad costs only itself") {
  auto second = with(with(good_update(), "stream_id", 8), "prev_id", json::array({7}));
  const auto out = judge(
      json::array(),
      {edu("m.device_list_update", good_update()), edu("m.device_list_update", 7),
       edu("m.device_list_update", with(good_update(), "user_id", "@x:other.test")),
       edu("m.device_list_update", without(good_update(), "stream_id")), edu("m.device_list_update", second),
       edu("m.signing_key_update", {{"user_id", bob}, {"master_key", {{"keys", {{"ed25519:M", "M"}}}}}}),
       edu("org.matrix.signing_key_update", {{"user_id", bob}, {"master_key", {{"keys", {{"ed25519:M", "M"}}}}}})});
  REQUIRE(out.device_changes.size() == 5);
  CHECK(std::get<device_list_edu>(out.device_changes[0]).stream_id == 7);
  CHECK(std::holds_alternative<unusable_update>(out.device_changes[1]));
  CHECK(std::get<device_list_edu>(out.device_changes[2]).stream_id == 8);
  CHECK(std::holds_alternative<signing_key_edu>(out.device_changes[3]));
  CHECK(std::holds_alternative<signing_key_edu>(out.device_changes[4]));
  CHECK(out.items.empty());
  CHECK(out.refused.size() == 3);
  CHECK(out.answer == R"({"pdus":{}})");
}

TEST_CASE("B74: to-device messages name devices of their senders, after all updates") {
  auto message = [](const std::string& type, const json& content, const std::string& sender = bob) {
    return edu("m.direct_to_device", {{"sender", sender},
                                      {"type", type},
                                      {"message_id", "m" + std::to_string(content.dump().size()) + sender + type},
                                      {"messages", {{"@alice:ours.test", {{"A1", content}, {"A2", content}}}}}});
  };
  const auto out =
      judge(json::array(), {message("m.room_key_request", {{"requesting_device_id", "D9"}, {"action", "request"}}),
                            message("m.room.encrypted", {{"device_id", "D8"}, {"ciphertext", "x"}}),
                            message("m.room.encrypted", {{"ciphertext", "x"}}),
                            message("m.room_key_request", {{"requesting_device_id", 7}}),
                            message("m.room_key_request", {{"requesting_device_id", std::string("D\0", 2)}}),
                            message("m.room_key", {{"device_id", "D7"}, {"requesting_device_id", "D7"}}),
                            message("m.room_key_request", {{"requesting_device_id", "D6"}}, "@eve:other.test"),
                            edu("m.device_list_update", good_update())});
  CHECK(mentions(out) == "@bob:remote.test D9, @bob:remote.test D8");
  REQUIRE(out.device_changes.size() == 3);
  CHECK(std::holds_alternative<device_list_edu>(out.device_changes[0]));
}

TEST_CASE("B74: encrypted events name devices, of the origin's users only, and only if they are taken") {
  auto event = [](const std::string& sender, const json& content, const std::string& type = "m.room.encrypted") {
    return json{{"room_id", "!r:remote.test"},
                {"sender", sender},
                {"type", type},
                {"content", content},
                {"depth", 3},
                {"origin_server_ts", 1},
                {"prev_events", {"$x"}},
                {"auth_events", {"$y"}},
                {"hashes", {{"sha256", "h"}}},
                {"signatures", {{"third.test", {{"ed25519:1", "s"}}}}}};
  };
  CHECK(mentions(judge({event(bob, {{"device_id", "D9"}}), event(bob, {{"device_id", "D8"}, {"a", 1}})},
                       json::array())) == "@bob:remote.test D9, @bob:remote.test D8");
  CHECK(mentions(judge({event("@eve:other.test", {{"device_id", "D9"}}), event(bob, {{"device_id", 9}}),
                        event(bob, {{"device_id", "D9"}}, "m.room.message"), event(bob, {{"other", 1}})},
                       json::array())) == "");
  // In a room whose rules are known it isn't signed at all: refused, and so is what it says.
  CHECK(mentions(judge({event(bob, {{"device_id", "D9"}})}, json::array(), "10")) == "");
}
