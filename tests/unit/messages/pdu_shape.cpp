#include "messages/event.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>

using namespace ranvier;
using nlohmann::json;

namespace {

room_version_rules rules(int version) { return *rules_of(std::to_string(version)); }

json good_event(int version) {
  json event = {{"type", "m.room.message"},
                {"room_id", "!r:domain"},
                {"sender", "@a:domain"},
                {"content", {{"body", "text"}}},
                {"origin_server_ts", 1'000},
                {"depth", 7},
                {"prev_events", json::array({"$p"})},
                {"auth_events", json::array({"$a", "$b"})}};
  if (version <= 2) {
    event["event_id"] = "$0:other";
    event["prev_events"] = json::array({json::array({"$p:domain", {{"sha256", "x"}}})});
    event["auth_events"] = json::array();
  }
  return event;
}

std::string signed_text(const json& event, int version) {
  return sign_event(event.dump(), rules(version), "domain", spec_key()).event;
}

pdu_shape look(const std::string& text, std::optional<room_version_rules> by) {
  const json_document document(text);
  return look_at_pdu(document.root(), by);
}

/// A good event with a change, hashed and signed after it.
pdu_shape look_after(const std::function<void(json&)>& change, int version = 10) {
  auto event = good_event(version);
  change(event);
  return look(signed_text(event, version), rules(version));
}

} // namespace

TEST_CASE("E6: a good PDU of each version, taken apart") {
  for (int version = 1; version <= 12; ++version) {
    CAPTURE(version);
    const auto done = sign_event(good_event(version).dump(), rules(version), "domain", spec_key());
    const auto shape = look(done.event, rules(version));
    CHECK(shape.problem == "");
    REQUIRE(shape.ok);
    CHECK(shape.event_id == done.event_id);
    CHECK(shape.room_id == "!r:domain");
    CHECK(shape.type == "m.room.message");
    CHECK(shape.sender == "@a:domain");
    CHECK_FALSE(shape.state_key);
    CHECK(shape.origin_server_ts == 1'000);
    CHECK(shape.hash_ok);
    CHECK(shape.event == done.event);
    CHECK(shape.signers == (version <= 2 ? std::vector<std::string>{"domain", "other"}
                                         : std::vector<std::string>{"domain"}));
    REQUIRE(shape.signatures.size() == 1);
    CHECK(verify_signature(spec_key().public_key(), shape.signatures.at("domain").at("ed25519:1"), shape.signed_bytes));
  }
}

TEST_CASE("E5: a wrong hash gives the redacted copy, whose signature still holds") {
  auto event = json::parse(signed_text(good_event(10), 10));
  event["content"]["body"] = "changed on the way";
  event["unsigned"] = {{"age", 1}};
  const auto shape = look(event.dump(), rules(10));
  REQUIRE(shape.ok);
  CHECK_FALSE(shape.hash_ok);
  CHECK(shape.event_id == sign_event(good_event(10).dump(), rules(10), "domain", spec_key()).event_id);
  event["content"] = json::object();
  event.erase("unsigned");
  CHECK(shape.event == event.dump());
  CHECK(verify_signature(spec_key().public_key(), shape.signatures.at("domain").at("ed25519:1"), shape.signed_bytes));
}

TEST_CASE("E5: no hash is a wrong hash, and padding is no difference") {
  auto event = json::parse(signed_text(good_event(10), 10));
  event["hashes"]["sha256"] = event["hashes"]["sha256"].get<std::string>() + "=";
  CHECK(look(event.dump(), rules(10)).hash_ok);
  event["hashes"] = json::object();
  CHECK(look(event.dump(), rules(10)).ok);
  CHECK_FALSE(look(event.dump(), rules(10)).hash_ok);
  event["hashes"]["sha256"] = "not base64!";
  CHECK_FALSE(look(event.dump(), rules(10)).hash_ok);
}

TEST_CASE("E4: members and whose signature is asked for") {
  const auto invite = [](json& event) {
    event["type"] = "m.room.member";
    event["state_key"] = "@b:remote";
    event["content"] = {{"membership", "invite"}};
  };
  const auto plain = look_after(invite);
  CHECK(plain.membership == "invite");
  CHECK(plain.state_key == "@b:remote");
  CHECK(plain.signers == std::vector<std::string>{"domain"});
  const auto third_party = [&](json& event) {
    invite(event);
    event["content"]["third_party_invite"] = {{"signed", json::object()}};
  };
  CHECK(look_after(third_party).signers.empty());
  CHECK(look_after(third_party, 1).signers == std::vector<std::string>{"other"});
  CHECK(look_after([&](json& event) {
          third_party(event);
          event["content"]["membership"] = "join";
        }).signers == std::vector<std::string>{"domain"});
  CHECK(look_after([](json& event) { event["event_id"] = "$0:domain"; }, 1).signers ==
        std::vector<std::string>{"domain"});
}

TEST_CASE("C6: signatures of other algorithms and odd forms are left out") {
  auto event = json::parse(signed_text(good_event(10), 10));
  event["signatures"]["domain"]["rsa:1"] = "x";
  event["signatures"]["domain"]["ed25519:2"] = 5;
  event["signatures"]["odd"] = "x";
  event["signatures"]["second"]["ed25519:z"] = "s";
  const auto shape = look(event.dump(), rules(10));
  REQUIRE(shape.ok);
  CHECK(shape.signatures.size() == 2);
  CHECK(shape.signatures.at("domain").size() == 1);
  CHECK(shape.signatures.at("second").at("ed25519:z") == "s");
}

TEST_CASE("E6, E9: what is refused, with a sentence and still with the event's id") {
  const auto ids = [](std::size_t count) { return json(std::vector<std::string>(count, "$x")); };
  const std::pair<std::string, std::function<void(json&)>> rows[] = {
      {"type", [](json& e) { e.erase("type"); }},
      {"type", [](json& e) { e["type"] = 1; }},
      {"type", [](json& e) { e["type"] = std::string(256, 'x'); }},
      {"sender", [](json& e) { e.erase("sender"); }},
      {"sender", [](json& e) { e["sender"] = "nobody"; }},
      {"sender", [](json& e) { e["sender"] = "@" + std::string(300, 'x') + ":domain"; }},
      {"room_id", [](json& e) { e.erase("room_id"); }},
      {"room_id", [](json& e) { e["room_id"] = "#alias:domain"; }},
      {"room_id", [](json& e) { e["room_id"] = "!" + std::string(255, 'x'); }},
      {"state_key", [](json& e) { e["state_key"] = nullptr; }},
      {"state_key", [](json& e) { e["state_key"] = std::string(256, 'x'); }},
      {"content", [](json& e) { e.erase("content"); }},
      {"content", [](json& e) { e["content"] = json::array(); }},
      {"depth", [](json& e) { e.erase("depth"); }},
      {"depth", [](json& e) { e["depth"] = -1; }},
      {"depth", [](json& e) { e["depth"] = "1"; }},
      {"origin_server_ts", [](json& e) { e.erase("origin_server_ts"); }},
      {"origin_server_ts", [](json& e) { e["origin_server_ts"] = "now"; }},
      {"prev_events", [](json& e) { e.erase("prev_events"); }},
      {"prev_events", [](json& e) { e["prev_events"] = "$x"; }},
      {"prev_events", [&](json& e) { e["prev_events"] = ids(21); }},
      {"prev_events", [](json& e) { e["prev_events"] = json::array({json::array({"$x", json::object()})}); }},
      {"prev_events", [](json& e) { e["prev_events"] = json::array({"no id"}); }},
      {"auth_events", [](json& e) { e.erase("auth_events"); }},
      {"auth_events", [&](json& e) { e["auth_events"] = ids(11); }},
      {"auth_events", [](json& e) { e["auth_events"] = json::array({1}); }},
      {"bytes", [](json& e) { e["content"]["body"] = std::string(65'536, 'x'); }},
  };
  for (const auto& [word, change] : rows) {
    CAPTURE(word);
    const auto shape = look_after(change);
    CAPTURE(shape.problem);
    CHECK_FALSE(shape.ok);
    CHECK(shape.problem.find(word) != std::string::npos);
    CHECK(shape.problem.ends_with("."));
    CHECK(shape.event_id.size() == 44);
  }
  CHECK(look_after([&](json& e) { e["prev_events"] = ids(20), e["auth_events"] = ids(10); }).ok);
  CHECK(look_after([](json& e) { e["prev_events"] = json::array(); }).ok);
}

TEST_CASE("E9: the cap on the event's size is exact") {
  auto event = good_event(10);
  const auto size = signed_text(event, 10).size();
  event["content"]["body"] = std::string(65'536 - size + 4, 'x'); // "text" is there already
  CHECK(look(signed_text(event, 10), rules(10)).ok);
  event["content"]["body"] = std::string(65'536 - size + 5, 'x');
  CHECK_FALSE(look(signed_text(event, 10), rules(10)).ok);
}

TEST_CASE("hashes and signatures must be objects") {
  for (const std::string name : {"hashes", "signatures"}) {
    CAPTURE(name);
    auto event = json::parse(signed_text(good_event(10), 10));
    event[name] = "x";
    CHECK(look(event.dump(), rules(10)).problem.find(name) != std::string::npos);
    event.erase(name);
    CHECK(look(event.dump(), rules(10)).problem.find(name) != std::string::npos);
  }
}

TEST_CASE("event ids of version 1 and 2 are checked") {
  const auto too_long = "$" + std::string(255, 'x') + ":d";
  for (const auto& id : {std::string(), std::string("$x"), std::string("x:domain"), too_long}) {
    CAPTURE(id);
    const auto shape = look_after([&](json& e) { e["event_id"] = id; }, 2);
    CHECK_FALSE(shape.ok);
    CHECK(shape.problem.find("event_id") != std::string::npos);
  }
  CHECK_FALSE(look_after([](json& e) { e.erase("event_id"); }, 1).ok);
  CHECK_FALSE(look_after([](json& e) { e["prev_events"] = json::array({"$p:domain"}); }, 1).ok);
}

TEST_CASE("C4: numbers are judged by the room's version") {
  auto event = good_event(5);
  event["content"] = json::parse(R"({"a":1.5,"b":18446744073709551615})");
  const auto text = signed_text(event, 5);
  CHECK(look(text, rules(5)).ok);
  CHECK(look(text, rules(5)).hash_ok);
  const auto strict = look(text, rules(6));
  CHECK_FALSE(strict.ok);
  CHECK(strict.problem.size() > 20);
  CHECK(look(text, std::nullopt).ok);
}

TEST_CASE("N7: version 12's create event names its room") {
  auto event = good_event(12);
  event["type"] = "m.room.create";
  event["state_key"] = "";
  event["prev_events"] = event["auth_events"] = json::array();
  CHECK_FALSE(look(signed_text(event, 12), rules(12)).ok); // with a room_id
  CHECK(look(signed_text(event, 11), rules(11)).ok);
  event.erase("room_id");
  const auto shape = look(signed_text(event, 12), rules(12));
  CHECK(shape.problem == "");
  CHECK(shape.room_id == "!" + shape.event_id.substr(1));
  CHECK(shape.room_id.size() == 44);
  CHECK_FALSE(look(signed_text(event, 11), rules(11)).ok);
  CHECK(look(signed_text(event, 12), std::nullopt).ok);
}

TEST_CASE("an unknown room version is judged by shape alone") {
  for (int version : {1, 10}) {
    CAPTURE(version);
    const auto text = signed_text(good_event(version), version);
    const auto shape = look(text, std::nullopt);
    CHECK(shape.problem == "");
    CHECK(shape.ok);
    CHECK(shape.event_id == "");
    CHECK(shape.event == text);
    CHECK(shape.signed_bytes == "");
    CHECK(shape.signers == std::vector<std::string>{"domain"});
  }
  CHECK_FALSE(look("{}", std::nullopt).ok);
}

TEST_CASE("what is no object is refused") {
  for (const std::string text : {"[]", "1", "null", "\"x\""}) {
    CAPTURE(text);
    CHECK(look(text, rules(10)).problem == "An event must be a JSON object.");
    CHECK_FALSE(look(text, std::nullopt).ok);
  }
}
