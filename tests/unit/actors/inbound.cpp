#include "actors/inbound.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::string origin = "remote.test", us = "ours.test", room = "!r:remote.test";

const signing_key& key_of_remote() {
  static const auto key = [] {
    start_crypto();
    return signing_key::from_seed("1", std::string(32, 'r'));
  }();
  return key;
}

json event(const std::string& body = "hi") {
  return {{"room_id", room},          {"sender", "@bob:remote.test"},
          {"type", "m.room.message"}, {"content", {{"body", body}}},
          {"origin_server_ts", 1000}, {"depth", 3},
          {"prev_events", {"$x"}},    {"auth_events", {"$y"}}};
}

json signed_pdu(const json& from, const std::string& version = "10") {
  return json::parse(sign_event(from.dump(), *rules_of(version), origin, key_of_remote()).event);
}
std::string id_of(const json& pdu, const std::string& version = "10") {
  const json_document document(pdu.dump());
  return event_id_of(document.root(), *rules_of(version));
}

struct judged {
  json answer;
  std::vector<std::pair<std::string, json>> items;
  inbound_result raw;
};

/// Judges a whole transaction; the room is known with `version` (empty: not known) and `acl`.
judged judge(const json& pdus, const json& edus, const std::string& version = "10", const std::string& acl = "",
             bool with_key = true) {
  const json_document document(json{{"pdus", pdus}, {"edus", edus}}.dump());
  auto parts = open_transaction(document.root(), origin);
  REQUIRE(parts.problem == "");
  inbound_judge judge_of(std::move(parts), origin, us);
  room_book rooms;
  for (const auto& id : judge_of.rooms())
    rooms[id] = {id == room ? version : "", id == room ? acl : ""};
  key_book keys;
  for (const auto& asked : judge_of.look(rooms))
    keys[asked] = with_key ? key_of_remote().public_key() : "";
  judged out;
  out.raw = judge_of.judge(keys);
  out.answer = json::parse(out.raw.answer);
  for (const auto& item : out.raw.items)
    out.items.emplace_back(item.kind, json::parse(item.json));
  return out;
}

json edu(const std::string& type, const json& content) { return {{"edu_type", type}, {"content", content}}; }
json receipt(const json& ids, const json& data = {{"ts", 1}}) { return {{"event_ids", ids}, {"data", data}}; }

/// The content with which the one EDU was passed on, or null if it was dropped.
json passed(const json& one, const std::string& acl = "") {
  const auto out = judge(json::array(), json::array({one}), "10", acl);
  REQUIRE(out.items.size() <= 1);
  CHECK(out.items.empty() == (out.raw.refused.size() == 1));
  return out.items.empty() ? json() : out.items[0].second["content"];
}

} // namespace

TEST_CASE("the envelope alone is judged as a whole (B104, I2, A8)") {
  const auto many = [](int n) { return json(std::vector<int>(static_cast<std::size_t>(n), 0)); };
  struct row {
    json body;
    int status;
  };
  const row rows[] = {
      {{{"pdus", json::array()}}, 200},
      {{{"pdus", many(50)}, {"edus", many(100)}, {"origin", origin}}, 200},
      {{{"pdus", {{{"odd", true}}}}, {"more", 1}}, 200},
      {{{"edus", json::array()}}, 400},
      {{{"pdus", many(51)}}, 400},
      {{{"pdus", json::array()}, {"edus", many(101)}}, 400},
      {{{"pdus", 1}}, 400},
      {{{"pdus", json::array()}, {"edus", {{"a", 1}}}}, 400},
      {{{"pdus", json::array()}, {"origin", 7}}, 400},
      {{{"pdus", json::array()}, {"origin", "other.test"}}, 403},
      {json::array(), 400},
  };
  for (const auto& one : rows) {
    CAPTURE(one.body.dump().substr(0, 80));
    const json_document document(one.body.dump());
    const auto parts = open_transaction(document.root(), origin);
    CHECK(parts.status == one.status);
    CHECK(parts.problem.empty() == (one.status == 200));
    CHECK(parts.errcode.empty() == (one.status == 200));
  }
}

TEST_CASE("a good PDU goes on as it came, verified, and its id is answered with {}") {
  const auto pdu = signed_pdu(event());
  const auto out = judge(json::array({pdu}), json::array());
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].first == "pdu");
  const auto& item = out.items[0].second;
  CHECK(item["origin"] == origin);
  CHECK(item["event"] == pdu);
  CHECK(item["event_id"] == id_of(pdu));
  CHECK(item["verified"] == true);
  CHECK_FALSE(item.contains("redacted"));
  CHECK(out.answer == json{{"pdus", {{id_of(pdu), json::object()}}}});
}

TEST_CASE("a signature that is missing or wrong is told to the sender, and to the host as verified false (E4)") {
  auto wrong = signed_pdu(event());
  wrong["signatures"][origin]["ed25519:1"] = base64(std::string(64, 'x'));
  auto missing = signed_pdu(event("other"));
  missing["signatures"] = json::object();
  for (const auto& pdu : {wrong, missing}) {
    const auto out = judge(json::array({pdu}), json::array());
    REQUIRE(out.items.size() == 1);
    CHECK(out.items[0].second["verified"] == false);
    CHECK(out.answer["pdus"][id_of(pdu)].contains("error"));
  }
}

TEST_CASE("what can't be verified is passed on as null: no key, or a room that isn't known") {
  const auto pdu = signed_pdu(event());
  const auto no_key = judge(json::array({pdu}), json::array(), "10", "", false);
  CHECK(no_key.items.at(0).second["verified"].is_null());
  CHECK(no_key.answer["pdus"][id_of(pdu)] == json::object());

  const auto no_room = judge(json::array({pdu}), json::array(), "");
  CHECK(no_room.items.at(0).second["verified"].is_null());
  CHECK_FALSE(no_room.items.at(0).second.contains("event_id"));
  CHECK_FALSE(no_room.items.at(0).second.contains("redacted"));
  CHECK(no_room.answer["pdus"][id_of(pdu)] == json::object());
}

TEST_CASE("a wrong hash leaves the redacted copy (E5)") {
  auto pdu = signed_pdu(event());
  pdu["content"]["body"] = "changed on the way";
  const auto out = judge(json::array({pdu}), json::array());
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].second["redacted"] == true);
  CHECK(out.items[0].second["verified"] == true); // the signature is over the redacted event
  CHECK(out.items[0].second["event"]["content"] == json::object());
}

TEST_CASE("a bad PDU is refused alone, under its own name (B103, I9)") {
  const auto good = signed_pdu(event());
  auto floats = signed_pdu(event("f"));
  floats["content"]["n"] = 1.5;
  const auto out = judge({floats, good, json{{"odd", 1}}, 7}, json::array());
  CHECK(out.items.size() == 1);
  CHECK(out.answer["pdus"].size() == 4);
  CHECK(out.answer["pdus"][id_of(good)] == json::object());
  int errors = 0;
  for (const auto& one : out.answer["pdus"])
    errors += one.contains("error");
  CHECK(errors == 3);
}

TEST_CASE("ten copies of a PDU in a transaction are one item") {
  const auto pdu = signed_pdu(event());
  const auto out = judge(json(std::vector<json>(10, pdu)), json::array());
  CHECK(out.items.size() == 1);
  CHECK(out.answer["pdus"].size() == 1);
}

TEST_CASE("an access list denies PDUs with an error and typing and receipts silently (I4, I5)") {
  const std::string acl = R"({"allow":["*"],"deny":["remote.*"]})";
  const auto pdu = signed_pdu(event());
  const auto out = judge(json::array({pdu}), json::array(), "10", acl);
  CHECK(out.items.empty());
  CHECK(out.answer["pdus"][id_of(pdu)].contains("error"));
  CHECK(passed(edu("m.typing", {{"room_id", room}, {"user_id", "@bob:remote.test"}, {"typing", true}}), acl).is_null());
  const json both = {{room, {{"m.read", {{"@bob:remote.test", receipt({"$a"})}}}}},
                     {"!other:x", {{"m.read", {{"@bob:remote.test", receipt({"$b"})}}}}}};
  const auto left = passed(edu("m.receipt", both), acl);
  CHECK(left.size() == 1);
  CHECK(left.contains("!other:x"));
  CHECK_FALSE(passed(edu("m.presence", {{"push", {{{"user_id", "@bob:remote.test"}, {"presence", "online"}}}}}), acl)
                  .is_null());
}

TEST_CASE("access lists: order, globs, ports, literals (I6)") {
  struct row {
    std::string acl, server;
    bool allowed;
  };
  const row rows[] = {
      {"", "a.test", true},
      {"{}", "a.test", false},
      {R"({"allow":["*"]})", "a.test", true},
      {R"({"allow":["*"]})", "a.test:8448", true},
      {R"({"allow":["*"],"deny":["a.test"]})", "a.test:8448", false},
      {R"({"allow":["*"],"deny":["A.T?st"]})", "a.test", false},
      {R"({"allow":["*.test"]})", "a.test", true},
      {R"({"allow":["*.test"]})", "test", false},
      {R"({"allow":["*"],"allow_ip_literals":false})", "1.2.3.4", false},
      {R"({"allow":["*"],"allow_ip_literals":false})", "[::1]:8448", false},
      {R"({"allow":["*"],"allow_ip_literals":false})", "a.test", true},
      {R"({"allow":["*"],"allow_ip_literals":"no"})", "1.2.3.4", true},
      {R"({"allow":["*"],"deny":[1,{},"b.test"]})", "a.test", true},
      {R"({"allow":"*"})", "a.test", false},
  };
  for (const auto& one : rows) {
    CAPTURE(one.acl);
    CAPTURE(one.server);
    CHECK(acl_allows(one.acl, one.server) == one.allowed);
  }
}

TEST_CASE("receipts: only well-formed m.read of the origin's users goes on (B100, U2-U4)") {
  const auto of = [](const json& content) { return passed(edu("m.receipt", content)); };
  CHECK(of({{"!a:e", "oops"}}).is_null());
  CHECK(of({{"!a:e", {{"m.read", json::array()}}}}).is_null());
  CHECK(of({{"!a:e", {{"m.read", {{"@u:remote.test", {{"event_ids", "x"}}}}}}}}).is_null());
  CHECK(of({{"!a:e", {{"m.read", {{"@u:remote.test", receipt({"$a", "$b"})}}}}}}).is_null());
  CHECK(of({{"!a:e", {{"m.read", {{"@u:remote.test", receipt({"$a"}, {{"ts", "1"}})}}}}}}).is_null());
  CHECK(of({{"!a:e", {{"m.read", {{"@u:other.test", receipt({"$a"})}}}}}}).is_null());
  CHECK(of({{"!a:e", {{"m.read.private", {{"@u:remote.test", receipt({"$a"})}}}}}}).is_null());
  CHECK(of({{"no room", {{"m.read", {{"@u:remote.test", receipt({"$a"})}}}}}}).is_null());
  const json good = {{"!a:e", {{"m.read", {{"@u:remote.test", receipt({"$a"}, {{"ts", 1}, {"thread_id", "main"}})}}}}}};
  CHECK(of(good) == good);
  auto mixed = good;
  mixed["!a:e"]["m.read"]["@v:other.test"] = receipt({"$a"});
  mixed["!b:e"] = 7;
  CHECK(of(mixed) == good);
}

TEST_CASE("typing and presence: shape and origin of the user (U1, U5)") {
  const json typing = {{"room_id", room}, {"user_id", "@bob:remote.test"}, {"typing", true}};
  CHECK(passed(edu("m.typing", typing)) == typing);
  for (const auto& [member, value] : std::vector<std::pair<std::string, json>>{
           {"room_id", "r"}, {"room_id", nullptr}, {"user_id", "@a:ours.test"}, {"user_id", 1}, {"typing", "yes"}}) {
    auto bad = typing;
    bad[member] = value;
    CAPTURE(bad.dump());
    CHECK(passed(edu("m.typing", bad)).is_null());
  }
  const json good = {{"user_id", "@bob:remote.test"}, {"presence", "online"}, {"last_active_ago", 5}};
  auto other = good, odd = good;
  other["user_id"] = "@bob:other.test";
  odd["presence"] = "asleep";
  CHECK(passed(edu("m.presence", {{"push", {other, good, odd, 7}}})) == json{{"push", {good}}});
  CHECK(passed(edu("m.presence", {{"push", {odd}}})).is_null());
  CHECK(passed(edu("m.presence", {{"push", "x"}})).is_null());
}

TEST_CASE("to-device messages: from the origin, for users of ours, with a key to know them again (U7, U9)") {
  const json content = {
      {"sender", "@bob:remote.test"},
      {"type", "m.test"},
      {"message_id", "m1"},
      {"messages", {{"@alice:ours.test", {{"*", {{"a", 1}}}, {"D", 7}}}, {"@x:else.test", {{"*", json::object()}}}}}};
  const auto out = judge(json::array(), json::array({edu("m.direct_to_device", content)}));
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].first == "to_device");
  CHECK(out.items[0].second == json{{"origin", origin},
                                    {"sender", "@bob:remote.test"},
                                    {"type", "m.test"},
                                    {"message_id", "m1"},
                                    {"messages", {{"@alice:ours.test", {{"*", {{"a", 1}}}}}}}});
  CHECK(out.raw.message_keys == std::vector<std::string>{"@bob:remote.test|m1"});
  for (const auto& [member, value] :
       std::vector<std::pair<std::string, json>>{{"sender", "@eve:other.test"},
                                                 {"type", 1},
                                                 {"message_id", ""},
                                                 {"message_id", nullptr},
                                                 {"messages", json::array()},
                                                 {"messages", {{"@x:else.test", {{"*", json::object()}}}}}}) {
    auto bad = content;
    bad[member] = value;
    CAPTURE(bad.dump());
    CHECK(judge(json::array(), json::array({edu("m.direct_to_device", bad)})).items.empty());
  }
}

TEST_CASE("other EDUs: unknown types go on, bad ones and bad numbers are dropped alone (I8, B103)") {
  CHECK(passed(edu("org.test", {{"x", {1, 2}}})) == json{{"x", {1, 2}}});
  CHECK(passed(edu("org.test", {{"x", 1.5}})).is_null());
  CHECK(passed(edu("org.test", {{"x", 9007199254740992}})).is_null());
  CHECK(passed(edu("org.test", {{"x", 9007199254740991}})) == json{{"x", 9007199254740991}});
  for (const auto& bad : {json(7), json::object(), json{{"edu_type", 1}, {"content", json::object()}},
                          json{{"edu_type", "a"}, {"content", "b"}}})
    CHECK(passed(bad).is_null());
  const auto update = judge(json::array(), {edu("m.device_list_update", {{"user_id", "@bob:remote.test"}}),
                                            edu("m.signing_key_update", {{"user_id", "@bob:other.test"}})});
  CHECK(update.items.empty());
  CHECK(update.raw.refused.size() == 2); // the first one is told of too: it only says that the list is to be fetched
  CHECK(update.raw.device_changes.size() == 1);
}

TEST_CASE("keys come before the events that need them, and ephemeral things last") {
  const auto out = judge(json::array({signed_pdu(event())}),
                         {edu("m.typing", {{"room_id", room}, {"user_id", "@bob:remote.test"}, {"typing", true}}),
                          edu("m.direct_to_device", {{"sender", "@bob:remote.test"},
                                                     {"type", "t"},
                                                     {"message_id", "1"},
                                                     {"messages", {{"@a:ours.test", {{"*", json::object()}}}}}})});
  REQUIRE(out.items.size() == 3);
  CHECK(out.items[0].first == "to_device");
  CHECK(out.items[1].first == "pdu");
  CHECK(out.items[2].first == "edu");
}
