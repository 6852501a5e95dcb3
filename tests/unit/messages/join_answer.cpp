#include "messages/join_answer.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>

using namespace ranvier;
using nlohmann::json;

namespace {

const join_wish wish{"!r:there", "@a:domain", "", "domain"};
const signing_key theirs = signing_key::from_seed("t", std::string(32, 't'));
const room_version_rules rules = *rules_of("10");

json event_of(const std::string& type, const json& content, const std::string& state_key = "",
              const std::string& sender = "@creator:there", const std::string& room = "!r:there") {
  const json bare = {{"type", type},
                     {"room_id", room},
                     {"sender", sender},
                     {"state_key", state_key},
                     {"content", content},
                     {"origin_server_ts", 1'000},
                     {"depth", 1},
                     {"prev_events", json::array({"$p"})},
                     {"auth_events", json::array({"$a"})}};
  const auto server = sender.substr(sender.find(':') + 1);
  return json::parse(sign_event(bare.dump(), rules, server, theirs).event);
}

join_offer offer_of(bool restricted = false) {
  json content = {{"membership", "join"}};
  if (restricted) content["join_authorised_via_users_server"] = "@creator:there";
  const json answer = {{"room_version", "10"},
                       {"event",
                        {{"type", "m.room.member"},
                         {"room_id", "!r:there"},
                         {"sender", "@a:domain"},
                         {"state_key", "@a:domain"},
                         {"content", content},
                         {"depth", 7},
                         {"prev_events", json::array({"$p"})},
                         {"auth_events", json::array()}}}};
  auto offer = read_join_template(answer.dump(), wish, spec_key(), 5'000);
  REQUIRE(offer.problem == "");
  return offer;
}

json good_answer() {
  return {{"state", json::array({event_of("m.room.create", {{"room_version", "10"}}),
                                 event_of("m.room.member", {{"membership", "join"}}, "@creator:there"),
                                 event_of("m.room.member", {{"membership", "ban"}}, "@bad:third", "@creator:there"),
                                 event_of("m.room.server_acl", {{"allow", json::array({"*"})}})})},
          {"auth_chain", json::array({event_of("m.room.join_rules", {{"join_rule", "public"}})})}};
}
json partial_answer() {
  auto answer = good_answer();
  answer["state"] = json::array({answer["state"][0], answer["state"][3]});
  answer["members_omitted"] = true;
  answer["servers_in_room"] = json::array({"there", "third", "not a name", 7, "there"});
  return answer;
}

const join_keys known{{"there", {{"ed25519:t", theirs.public_key()}}}, {"third", {{"ed25519:t", theirs.public_key()}}}};

/// Reads and judges in steps of two events.
join_answer judged(const std::string& text, bool asked = true, const join_keys& keys = known, bool wrapped = false,
                   const join_offer& offer = offer_of()) {
  join_answer answer(shared_text(text), wrapped, offer, wish, asked);
  while (answer.look(2)) {
  }
  while (answer.judge(keys, 2)) {
  }
  return answer;
}
std::string problem_of(const json& answer, bool asked = true) { return judged(answer.dump(), asked).problem(); }

std::string problem_after(const std::function<void(json&)>& change, bool partial) {
  auto answer = partial ? partial_answer() : good_answer();
  change(answer);
  return problem_of(answer);
}

} // namespace

TEST_CASE("J6: a full answer") {
  auto answer = judged(good_answer().dump());
  REQUIRE(answer.problem() == "");
  CHECK_FALSE(answer.members_omitted());
  CHECK(answer.left_out() == 0);
  CHECK(answer.unverified() == 0);
  const auto record = answer.take_record("there");
  CHECK(record.members == std::map<std::string, std::string>{{"@bad:third", "ban"}, {"@creator:there", "join"}});
  CHECK(record.acl == R"({"allow":["*"]})");
  CHECK(record.events.empty());
  CHECK(record.room_version == "10");
  CHECK_FALSE(record.members_omitted);
  const auto told = json::parse(answer.take_answer(false, "there"));
  CHECK(told["state"] == good_answer()["state"]);
  CHECK(told["auth_chain"] == good_answer()["auth_chain"]);
  CHECK(told["servers_in_room"] == json::array({"there"}));
  CHECK(told["event_id"] == offer_of().event_id);
  CHECK(told["event"] == json::parse(offer_of().event));
  CHECK(told["joined_via"] == "there");
  CHECK(told["partial"] == false);
}

TEST_CASE("P2: a partial answer gives servers, and its events to the store") {
  auto answer = judged(partial_answer().dump());
  REQUIRE(answer.problem() == "");
  CHECK(answer.members_omitted());
  const auto record = answer.take_record("there");
  CHECK(record.servers_in_room == std::vector<std::string>{"there", "third"});
  REQUIRE(record.events.size() == 3);
  CHECK(record.events[0].in_state);
  CHECK_FALSE(record.events[0].in_auth_chain);
  CHECK(record.events[2].in_auth_chain);
  CHECK(json::parse(record.events[0].event.str())["type"] == "m.room.create");
  CHECK(json::parse(answer.take_answer(true, "there"))["partial"] == true);
}

TEST_CASE("MSC3706's old names are understood, and the old wrapped answer") {
  auto old = partial_answer();
  old["org.matrix.msc3706.partial_state"] = true;
  old["org.matrix.msc3706.servers_in_room"] = old["servers_in_room"];
  old.erase("members_omitted");
  old.erase("servers_in_room");
  auto answer = judged(old.dump());
  CHECK(answer.problem() == "");
  CHECK(answer.members_omitted());
  CHECK(judged(json::array({200, good_answer()}).dump(), false, known, true).problem() == "");
  CHECK(judged(json::array({200}).dump(), false, known, true).problem() != "");
  CHECK(judged(good_answer().dump(), false, known, true).problem() != "");
}

TEST_CASE("B92, J8: answers that can't be used") {
  const auto state = [](json& a) -> json& { return a["state"]; };
  struct {
    const char* what;
    std::function<void(json&)> change;
    bool partial;
    const char* words;
  } table[] = {
      {"no state", [](json& a) { a.erase("state"); }, false, "no state"},
      {"no auth_chain", [](json& a) { a.erase("auth_chain"); }, false, "no auth_chain"},
      {"state no list", [](json& a) { a["state"] = "x"; }, false, "can't be read"},
      {"no create", [&](json& a) { state(a).erase(0); }, false, "no m.room.create"},
      {"create in the auth chain only",
       [&](json& a) {
         a["auth_chain"].push_back(state(a)[0]);
         state(a).erase(0);
       },
       false, "no m.room.create"},
      {"version",
       [&](json& a) {
         state(a)[0] = event_of("m.room.create", {{"room_version", "11"}});
       },
       false, "said 10"},
      {"unknown version",
       [&](json& a) {
         state(a)[0] = event_of("m.room.create", {{"room_version", "x"}});
       },
       false, "unknown room version"},
      {"default version", [&](json& a) { state(a)[0] = event_of("m.room.create", json::object()); }, false,
       "version 1,"},
      {"creator of another server",
       [&](json& a) {
         state(a)[0] = event_of("m.room.create", {{"room_version", "10"}}, "", "@c:third");
       },
       false, "named after"},
      {"two creates",
       [&](json& a) {
         a["auth_chain"].push_back(event_of("m.room.create", {{"room_version", "10"}, {"x", 1}}));
       },
       false, "two m.room.create"},
      {"create unsigned", [&](json& a) { state(a)[0]["signatures"] = json::object(); }, false, "isn't signed"},
      {"create with a wrong hash", [&](json& a) { state(a)[0]["content"]["x"] = 1; }, false, "wrong hash"},
      {"create of no use", [&](json& a) { state(a)[0]["depth"] = "x"; }, false, "can't be used"},
      {"another room",
       [&](json& a) {
         state(a).push_back(event_of("m.room.topic", {{"topic", "x"}}, "", "@creator:there", "!other:there"));
       },
       false, "another room"},
      {"another room in the auth chain",
       [&](json& a) {
         a["auth_chain"].push_back(event_of("m.room.topic", {{"topic", "x"}}, "", "@creator:there", "!other:there"));
       },
       false, "another room"},
      {"two for one place", [&](json& a) { state(a).push_back(event_of("m.room.server_acl", json::object())); }, false,
       "two events for one place"},
      {"no state key",
       [&](json& a) {
         auto event = event_of("m.room.topic", {{"topic", "x"}});
         event.erase("state_key");
         event.erase("hashes");
         event.erase("signatures");
         state(a).push_back(json::parse(sign_event(event.dump(), rules, "there", theirs).event));
       },
       false, "without a state_key"},
      {"wrong signature",
       [&](json& a) {
         auto& event = state(a)[1];
         event["content"]["membership"] = "ban";
         const json_document document(event.dump());
         event["hashes"]["sha256"] = content_hash(document.root(), rules);
       },
       false, "signature of there"},
      {"no servers", [](json& a) { a.erase("servers_in_room"); }, true, "servers_in_room"},
      {"no usable server", [](json& a) { a["servers_in_room"] = json::array({"?"}); }, true, "servers_in_room"},
      {"servers no list", [](json& a) { a["servers_in_room"] = "there"; }, true, "servers_in_room"},
  };
  for (const auto& row : table) {
    const std::string what = row.what;
    CAPTURE(what);
    CHECK(problem_after(row.change, row.partial).find(row.words) != std::string::npos);
  }
  CHECK(problem_of(partial_answer(), false).find("wasn't asked") != std::string::npos);
}

TEST_CASE("B92: a cut answer is noticed wherever it is cut") {
  const auto text = partial_answer().dump();
  for (std::size_t length = 0; length < text.size(); length += 7) {
    CAPTURE(length);
    CHECK(judged(text.substr(0, length)).problem() != "");
  }
}

TEST_CASE("J8: what can't be verified is passed on, what isn't an event is left out") {
  auto text = good_answer();
  auto unsigned_one = event_of("m.room.member", {{"membership", "join"}}, "@bare:there", "@bare:there");
  unsigned_one["signatures"] = json::object();
  text["state"].push_back(unsigned_one);
  text["state"].push_back({{"type", "m.room.topic"}, {"state_key", ""}});
  text["state"].push_back(7);
  auto redacted = event_of("m.room.name", {{"name", "true"}});
  redacted["content"]["name"] = "false";
  text["state"].push_back(redacted);
  auto answer = judged(text.dump(), true, {});
  REQUIRE(answer.problem() == "");
  CHECK(answer.left_out() == 3);
  CHECK(answer.unverified() == 6);
  const auto record = answer.take_record("there");
  CHECK_FALSE(record.members.contains("@bare:there"));
  const auto told = json::parse(answer.take_answer(false, "there"));
  REQUIRE(told["state"].size() == 5);
  CHECK(told["state"][4]["content"] == json::object());
}

TEST_CASE("keys are wanted once a server and id, with the earliest moment") {
  join_answer answer(shared_text(good_answer().dump()), false, offer_of(), wish, true);
  while (answer.look(1)) {
  }
  CHECK(answer.wanted_keys() ==
        std::map<std::string, std::map<std::string, std::int64_t>>{{"there", {{"ed25519:t", 1'000}}}});
}

TEST_CASE("J6, J7: the returned event of a restricted join") {
  const auto offer = offer_of(true);
  const json ours = json::parse(offer.event);
  auto both = ours;
  const json_document document(offer.event);
  const auto bytes = look_at_pdu(document.root(), rules).signed_bytes;
  both["signatures"]["there"]["ed25519:t"] = theirs.sign(bytes);
  auto problem = [&](const json& event) {
    auto text = good_answer();
    if (!event.is_null()) text["event"] = event;
    return judged(text.dump(), true, known, false, offer).problem();
  };
  CHECK(problem(both) == "");
  CHECK(problem(nullptr).find("restricted join needs") != std::string::npos);
  CHECK(problem(ours).find("signature of there") != std::string::npos);
  auto without_ours = both;
  without_ours["signatures"].erase("domain");
  CHECK(problem(without_ours).find("lacks our signature") != std::string::npos);
  auto forged = both;
  forged["signatures"]["there"]["ed25519:t"] = theirs.sign("something else");
  CHECK(problem(forged).find("is wrong") != std::string::npos);
  auto another = both;
  another["depth"] = 8;
  CHECK(problem(another).find("isn't ours") != std::string::npos);
  auto text = good_answer();
  text["event"] = both;
  auto answer = judged(text.dump(), true, known, false, offer);
  CHECK(json::parse(answer.take_answer(false, "there"))["event"] == both);
}

TEST_CASE("J6: an open join does without the returned event, or with an unusable one") {
  auto text = good_answer();
  text["event"] = {{"type", "m.room.member"}};
  auto answer = judged(text.dump());
  CHECK(answer.problem() == "");
  CHECK(json::parse(answer.take_answer(false, "there"))["event"] == json::parse(offer_of().event));
}
