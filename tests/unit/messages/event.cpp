#include "messages/event.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {

room_version_rules rules(int version) { return *rules_of(std::to_string(version)); }

std::string redacted_text(const std::string& event, int version) {
  const json_document document(event);
  return redacted(document.root(), rules(version));
}

std::string hash_of(const std::string& event, int version) {
  const json_document document(event);
  return content_hash(document.root(), rules(version));
}

std::string signature_of(const std::string& event) {
  const json_document document(event);
  return std::string(*string_member(document.root()["signatures"]["domain"], "ed25519:1"));
}

/// The keys of `content` that are left of `content` after redaction, with a comma after each.
std::string content_left(const std::string& type, const std::string& content, int version) {
  const json_document document(
      redacted_text("{\"type\":\"" + type + "\",\"room_id\":\"!r\",\"content\":" + content + "}", version));
  std::string out;
  for (auto field : document.root()["content"].get_object()) out.append(field.key).append(",");
  return out;
}

const std::string minimal_event =
    R"({"room_id":"!x:domain","sender":"@a:domain","origin":"domain","origin_server_ts":1000000,"signatures":{},)"
    R"("hashes":{},"type":"X","content":{},"prev_events":[],"auth_events":[],"depth":3,"unsigned":{"age_ts":1000000}})";

} // namespace

TEST_CASE("RV: what differs between room versions 1 to 12") {
  using id_form = room_version_rules::id_form;
  REQUIRE(known_room_versions().size() == 12);
  const int redaction[] = {1, 1, 1, 1, 1, 6, 6, 8, 9, 9, 11, 11};
  for (int version = 1; version <= 12; ++version) {
    CAPTURE(version);
    CHECK(known_room_versions()[static_cast<std::size_t>(version - 1)] == std::to_string(version));
    CHECK(rules(version).number == version);
    CHECK(rules(version).redaction == redaction[version - 1]);
    CHECK(rules(version).event_id ==
          (version <= 2 ? id_form::given : version == 3 ? id_form::standard_base64 : id_form::url_base64));
    CHECK(rules(version).number_rule == (version < 6 ? numbers::lenient : numbers::strict));
    CHECK(rules(version).key_validity == (version >= 5));
    CHECK(rules(version).create_has_room_id == (version < 12));
  }
  for (const std::string unknown : {"", "0", "13", "01", "1.0", "org.matrix.msc2176"}) {
    CAPTURE(unknown);
    CHECK_FALSE(rules_of(unknown));
  }
}

TEST_CASE("E1, E2: V11, a minimal event") {
  const auto done = sign_event(minimal_event, rules(1), "domain", spec_key());
  CHECK(done.event ==
        R"({"auth_events":[],"content":{},"depth":3,"hashes":{"sha256":"5jM4wQpv6lnBo7CLIghJuHdW+s2CMBJPUOGOC89ncos"},)"
        R"("origin":"domain","origin_server_ts":1000000,"prev_events":[],"room_id":"!x:domain","sender":"@a:domain",)"
        R"("signatures":{"domain":{"ed25519:1":"KxwGjPSDEtvnFgU00fwFz+l6d2pJM6XBIaMEn81SXPTRl16AqLAYqfIReFGZlHi5KLjAW)"
        R"(bOoMszkwsQma+lYAg"}},"type":"X","unsigned":{"age_ts":1000000}})");
  CHECK(done.event_id == "");
}

TEST_CASE("E1, E2: V12, an event of which redaction leaves less") {
  const auto done = sign_event(
      R"({"content":{"body":"Here is the message content"},"event_id":"$0:domain","origin":"domain",)"
      R"("origin_server_ts":1000000,"type":"m.room.message","room_id":"!r:domain","sender":"@u:domain",)"
      R"("signatures":{},"unsigned":{"age_ts":1000000}})",
      rules(1), "domain", spec_key());
  CHECK(done.event.find(R"("hashes":{"sha256":"onLKD1bGljeBWQhWZ1kaP9SorVmRQNdN5aM2JYU2n/g"})") != std::string::npos);
  CHECK(signature_of(done.event) ==
        "Wm+VzmOUOz08Ds+0NTWb1d4CZrVsJSikkeRxh6aCcUwu6pNC78FunoD7KNWzqFn241eYHYMGCA5McEiVPdhzBA");
  CHECK(done.event_id == "$0:domain");
}

TEST_CASE("E3: V13, the event id") {
  CHECK(sign_event(minimal_event, rules(4), "domain", spec_key()).event_id ==
        "$8yif6p8EqgoSten2BLje9ntKm720NyFLWQv9tn8memc");
  // Version 3 has the other alphabet; the hash is the same.
  const auto signed_v4 = sign_event(minimal_event, rules(4), "domain", spec_key());
  const json_document document(signed_v4.event);
  CHECK(event_id_of(document.root(), rules(3)) == "$8yif6p8EqgoSten2BLje9ntKm720NyFLWQv9tn8memc");
  const json_document other(R"({"type":"X","content":{},"depth":27})");
  const auto v3 = event_id_of(other.root(), rules(3)), v5 = event_id_of(other.root(), rules(5));
  CHECK(unbase64(v3.substr(1)));
  CHECK(v5.find_first_of("+/=") == std::string::npos);
  CHECK(event_id_of(document.root(), rules(2)) == "");
}

TEST_CASE("RV: top-level members that redaction keeps") {
  const std::string event =
      R"({"event_id":"i","type":"t","room_id":"r","sender":"s","state_key":"k","content":{"a":1},"hashes":{"h":1},)"
      R"("signatures":{"s":{}},"depth":1,"prev_events":[],"prev_state":[],"auth_events":[],"origin":"o",)"
      R"("origin_server_ts":2,"membership":"join","unsigned":{"u":1},"redacts":"$x","other":1,"age_ts":3})";
  const std::string before_v11 =
      R"({"auth_events":[],"content":{},"depth":1,"event_id":"i","hashes":{"h":1},"membership":"join","origin":"o",)"
      R"("origin_server_ts":2,"prev_events":[],"prev_state":[],"room_id":"r","sender":"s","signatures":{"s":{}},)"
      R"("state_key":"k","type":"t"})";
  const std::string since_v11 =
      R"({"auth_events":[],"content":{},"depth":1,"event_id":"i","hashes":{"h":1},"origin_server_ts":2,)"
      R"("prev_events":[],"room_id":"r","sender":"s","signatures":{"s":{}},"state_key":"k","type":"t"})";
  for (int version = 1; version <= 12; ++version) {
    CAPTURE(version);
    CHECK(redacted_text(event, version) == (version < 11 ? before_v11 : since_v11));
  }
}

TEST_CASE("RV: content that redaction keeps, by type and version") {
  struct row {
    std::string type, content;
    int from, to;
    std::string left;
  };
  const std::string levels = R"({"ban":1,"events":{},"events_default":1,"invite":1,"kick":1,"notifications":{},)"
                             R"("redact":1,"state_default":1,"users":{},"users_default":1,"other":1})";
  const std::string member = R"({"membership":"join","displayname":"d","join_authorised_via_users_server":"@a:b"})";
  const row rows[] = {
      {"m.room.member", member, 1, 8, "membership,"},
      {"m.room.member", member, 9, 12, "join_authorised_via_users_server,membership,"},
      {"m.room.create", R"({"creator":"@a:b","room_version":"5","m.federate":false})", 1, 10, "creator,"},
      {"m.room.create", R"({"creator":"@a:b","room_version":"5","x":{}})", 11, 12, "creator,room_version,x,"},
      {"m.room.join_rules", R"({"join_rule":"restricted","allow":[],"x":1})", 1, 7, "join_rule,"},
      {"m.room.join_rules", R"({"join_rule":"restricted","allow":[],"x":1})", 8, 12, "allow,join_rule,"},
      {"m.room.power_levels", levels, 1, 10,
       "ban,events,events_default,kick,redact,state_default,users,users_default,"},
      {"m.room.power_levels", levels, 11, 12,
       "ban,events,events_default,invite,kick,redact,state_default,users,users_default,"},
      {"m.room.aliases", R"({"aliases":[],"x":1})", 1, 5, "aliases,"},
      {"m.room.aliases", R"({"aliases":[],"x":1})", 6, 12, ""},
      {"m.room.history_visibility", R"({"history_visibility":"shared","x":1})", 1, 12, "history_visibility,"},
      {"m.room.redaction", R"({"redacts":"$x","reason":"r"})", 1, 10, ""},
      {"m.room.redaction", R"({"redacts":"$x","reason":"r"})", 11, 12, "redacts,"},
      {"m.room.message", R"({"body":"b","membership":"m","creator":"c"})", 1, 12, ""},
      {"m.room.server_acl", R"({"allow":[],"deny":[]})", 1, 12, ""},
  };
  for (const auto& one : rows) {
    for (int version = one.from; version <= one.to; ++version) {
      CAPTURE(one.type);
      CAPTURE(version);
      CHECK(content_left(one.type, one.content, version) == one.left);
    }
  }
}

TEST_CASE("RV: of a third-party invite version 11 keeps only what was signed") {
  const auto left = [](const std::string& content, int version) {
    const json_document document(redacted_text(R"({"type":"m.room.member","content":)" + content + "}", version));
    return canonical_json(document.root()["content"].value());
  };
  const std::string invite =
      R"({"membership":"invite","third_party_invite":{"display_name":"d","signed":{"token":"t","mxid":"m"}}})";
  CHECK(left(invite, 10) == R"({"membership":"invite"})");
  for (int version : {11, 12}) {
    CAPTURE(version);
    CHECK(left(invite, version) ==
          R"({"membership":"invite","third_party_invite":{"signed":{"mxid":"m","token":"t"}}})");
    CHECK(left(R"({"third_party_invite":{"signed":1}})", version) == R"({"third_party_invite":{"signed":1}})");
    CHECK(left(R"({"third_party_invite":{"display_name":"d"}})", version) == R"({"third_party_invite":{}})");
    CHECK(left(R"({"third_party_invite":"odd","membership":"invite"})", version) == R"({"membership":"invite"})");
  }
}

TEST_CASE("RV: version 12's create event can't hold its own room's id") {
  const std::string create = R"({"type":"m.room.create","room_id":"!r","content":{}})";
  CHECK(redacted_text(create, 11) == R"({"content":{},"room_id":"!r","type":"m.room.create"})");
  CHECK(redacted_text(create, 12) == R"({"content":{},"type":"m.room.create"})");
}

TEST_CASE("redaction copes with odd content") {
  for (const std::string content : {"1", "[]", "null", "\"text\""}) {
    CAPTURE(content);
    CHECK(redacted_text("{\"type\":\"m.room.create\",\"content\":" + content + "}", 11) ==
          R"({"content":{},"type":"m.room.create"})");
  }
  CHECK(redacted_text("{}", 10) == R"({"content":{}})");
  CHECK_THROWS_AS(redacted_text("[]", 10), json_problem);
}

TEST_CASE("further members can be left out of a redacted event") {
  const json_document document(R"({"type":"t","content":{"a":1},"signatures":{},"depth":1})");
  CHECK(redacted(document.root(), rules(10), {"signatures", "depth"}) == R"({"content":{},"type":"t"})");
}

TEST_CASE("E1: the content hash leaves out unsigned, signatures and hashes, and nothing else") {
  const auto bare = hash_of(R"({"type":"t","content":{"a":1}})", 10);
  CHECK(hash_of(R"({"content":{"a":1},"hashes":{"sha256":"x"},"signatures":1,"type":"t","unsigned":{}})", 10) == bare);
  CHECK(hash_of(R"({"type":"t","content":{"a":2}})", 10) != bare);
  CHECK(hash_of(R"({"type":"t","content":{"a":1},"age_ts":1})", 10) != bare);
  CHECK(bare == base64(sha256(R"({"content":{"a":1},"type":"t"})")));
}

TEST_CASE("C4: only versions 1 to 5 take odd numbers") {
  const std::string event = R"({"type":"t","content":{"a":1.5,"b":9007199254740993}})";
  CHECK(hash_of(event, 5) == base64(sha256(R"({"content":{"a":1.5,"b":9007199254740993},"type":"t"})")));
  CHECK_THROWS_AS(hash_of(event, 6), json_problem);
  CHECK_THROWS_AS(sign_event(event, rules(6), "domain", spec_key()), json_problem);
  CHECK_NOTHROW(sign_event(event, rules(1), "domain", spec_key()));
}

TEST_CASE("signing keeps the signatures of others and replaces a stale hash") {
  const auto done = sign_event(
      R"({"type":"t","content":{"a":1},"hashes":{"sha256":"stale"},"signatures":{"other":{"ed25519:x":"s"}}})",
      rules(10), "domain", spec_key());
  const json_document document(done.event);
  CHECK(string_member(document.root()["signatures"]["other"], "ed25519:x") == "s");
  CHECK(string_member(document.root()["hashes"], "sha256") == content_hash(document.root(), rules(10)));
  CHECK(done.event_id == event_id_of(document.root(), rules(10)));
  // Signing again changes nothing: Ed25519 is deterministic.
  CHECK(sign_event(done.event, rules(10), "domain", spec_key()).event == done.event);
}

TEST_CASE("what can't be signed as an event") {
  for (const std::string text :
       {"", "[]", "1", R"({"a":1,"a":2})", R"({"content":{"a":1e3}})", R"({"signatures":1})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sign_event(text, rules(10), "domain", spec_key()), json_problem);
  }
}
