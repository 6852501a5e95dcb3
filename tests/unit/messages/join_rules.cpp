#include "messages/join_rules.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>

using namespace ranvier;
using nlohmann::json;

namespace {

const join_wish wish{"!r:there", "@a:domain", "", "domain"};

json template_of(const std::string& version) {
  const bool pairs = version == "1" || version == "2";
  const json reference = pairs ? json::array({"$p:there", {{"sha256", "x"}}}) : json("$p");
  return {{"room_version", version},
          {"event",
           {{"type", "m.room.member"},
            {"room_id", "!r:there"},
            {"sender", "@a:domain"},
            {"state_key", "@a:domain"},
            {"content", {{"membership", "join"}, {"displayname", "not ours to say"}}},
            {"depth", 7},
            {"origin", "there"},
            {"origin_server_ts", 1},
            {"event_id", "$made:there"},
            {"odd", "member"},
            {"prev_events", json::array({reference})},
            {"auth_events", json::array({reference})}}}};
}

join_offer read(const json& answer, const join_wish& by = wish) {
  return read_join_template(answer.dump(), by, spec_key(), 5'000);
}

std::string problem_after(const std::function<void(json&)>& change, const std::string& version = "10") {
  auto answer = template_of(version);
  change(answer);
  return read(answer).problem;
}

} // namespace

TEST_CASE("J2, J3: the join event of each room version") {
  for (const auto& version : known_room_versions()) {
    CAPTURE(version);
    const auto offer = read(template_of(version));
    REQUIRE(offer.problem == "");
    CHECK(offer.room_version == version);
    const auto event = json::parse(offer.event);
    CHECK(event["origin"] == "domain");
    CHECK(event["origin_server_ts"] == 5'000);
    CHECK(event["depth"] == 7);
    CHECK(event["content"] == json{{"membership", "join"}});
    CHECK(event["prev_events"] == template_of(version)["event"]["prev_events"]);
    CHECK_FALSE(event.contains("odd"));
    const json_document document(offer.event);
    const auto shape = look_at_pdu(document.root(), offer.rules);
    REQUIRE(shape.ok);
    CHECK(shape.hash_ok);
    CHECK(shape.event_id == offer.event_id);
    CHECK(verify_signature(spec_key().public_key(), shape.signatures.at("domain").at("ed25519:1"), shape.signed_bytes));
    const bool named = version == "1" || version == "2";
    CHECK(event.contains("event_id") == named);
    if (named) CHECK(offer.event_id.substr(offer.event_id.find(':')) == ":domain");
    CHECK(references_of(offer.event, "prev_events") == std::vector<std::string>{named ? "$p:there" : "$p"});
  }
}

TEST_CASE("J3: without room_version it is version 1") {
  auto answer = template_of("1");
  answer.erase("room_version");
  CHECK(read(answer).room_version == "1");
  CHECK(read(answer).problem == "");
}

TEST_CASE("the host's content is added, but says nothing of membership or authorisation") {
  auto by = wish;
  by.content = R"({"displayname":"A","membership":"ban","join_authorised_via_users_server":"@x:evil","reason":"r"})";
  const auto offer = read(template_of("10"), by);
  REQUIRE(offer.problem == "");
  CHECK(json::parse(offer.event)["content"] == json{{"membership", "join"}, {"displayname", "A"}, {"reason", "r"}});
  CHECK(offer.authorised_by == "");
}

TEST_CASE("J7: a restricted join names who authorises it") {
  auto answer = template_of("10");
  answer["event"]["content"]["join_authorised_via_users_server"] = "@mod:there";
  const auto offer = read(answer);
  REQUIRE(offer.problem == "");
  CHECK(offer.authorised_by == "there");
  CHECK(json::parse(offer.event)["content"]["join_authorised_via_users_server"] == "@mod:there");
  answer["event"]["content"]["join_authorised_via_users_server"] = "mod";
  CHECK(read(answer).problem != "");
}

TEST_CASE("J2: a template that isn't our join of this room") {
  struct {
    const char* what;
    std::function<void(json&)> change;
    const char* words;
  } table[] = {
      {"no event", [](json& a) { a.erase("event"); }, "no event template"},
      {"a list", [](json& a) { a["event"] = json::array(); }, "no event"},
      {"type", [](json& a) { a["event"]["type"] = "m.room.message"; }, "no m.room.member"},
      {"room", [](json& a) { a["event"]["room_id"] = "!other:there"; }, "another room"},
      {"sender", [](json& a) { a["event"]["sender"] = "@b:domain"; }, "another sender"},
      {"no sender", [](json& a) { a["event"].erase("sender"); }, "another sender"},
      {"state key", [](json& a) { a["event"]["state_key"] = "@b:domain"; }, "another state_key"},
      {"content", [](json& a) { a["event"]["content"] = "x"; }, "no content"},
      {"membership", [](json& a) { a["event"]["content"]["membership"] = "leave"; }, "no join"},
      {"no prev_events", [](json& a) { a["event"]["prev_events"] = json::array(); }, "no prev_events"},
      {"prev_events", [](json& a) { a["event"]["prev_events"] = json::array({7}); }, "prev_events"},
      {"auth_events", [](json& a) { a["event"]["auth_events"] = json::array({"no id"}); }, "auth_events"},
      {"depth", [](json& a) { a["event"]["depth"] = -1; }, "depth"},
      {"depth as text", [](json& a) { a["event"]["depth"] = "7"; }, "depth"},
      {"version", [](json& a) { a["room_version"] = "13-alpha"; }, "'13-alpha'"},
      {"version as number", [](json& a) { a["room_version"] = 10; }, "isn't known"},
  };
  for (const auto& row : table) {
    const std::string what = row.what;
    CAPTURE(what);
    const auto problem = problem_after(row.change);
    CHECK(problem.find(row.words) != std::string::npos);
    CHECK(read_join_template("{", wish, spec_key(), 1).problem != "");
  }
}

TEST_CASE("J1, J4: paths") {
  const auto make = make_join_uri(wish);
  CHECK(make.starts_with("/_matrix/federation/v1/make_join/%21r%3Athere/%40a%3Adomain?ver=1&ver=2&"));
  CHECK(make.ends_with("&ver=11&ver=12"));
  CHECK(send_join_uri(wish, "$e", true, true) ==
        "/_matrix/federation/v2/send_join/%21r%3Athere/%24e?omit_members=true");
  CHECK(send_join_uri(wish, "$e", true, false).ends_with("?omit_members=false"));
  CHECK(send_join_uri(wish, "$e", false, true) == "/_matrix/federation/v1/send_join/%21r%3Athere/%24e");
}
