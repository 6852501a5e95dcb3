#include "messages/join_state.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>

using namespace ranvier;
using nlohmann::json;

namespace {

const signing_key theirs = signing_key::from_seed("t", std::string(32, 't'));
const signing_key others = signing_key::from_seed("o", std::string(32, 'o'));
const room_version_rules rules = *rules_of("10");
using keys_of = std::map<std::string, std::map<std::string, std::string>>;
const keys_of known{{"there", {{"ed25519:t", theirs.public_key()}}}, {"third", {{"ed25519:o", others.public_key()}}}};

struct made {
  std::string id, text;
  json event;
};
made event_of(const std::string& type, const json& content, const json& state_key = "",
              const std::string& sender = "@creator:there", const std::string& room = "!r:there",
              const signing_key* key = nullptr) {
  json bare = {{"type", type},
               {"room_id", room},
               {"sender", sender},
               {"content", content},
               {"origin_server_ts", 1'000},
               {"depth", 1},
               {"prev_events", json::array({"$p"})},
               {"auth_events", json::array({"$a"})}};
  if (!state_key.is_null()) bare["state_key"] = state_key;
  const auto server = sender.substr(sender.find(':') + 1);
  const auto sealed = sign_event(bare.dump(), rules, server, key ? *key : server == "third" ? others : theirs);
  return {sealed.event_id, sealed.event, json::parse(sealed.event)};
}

const auto create = event_of("m.room.create", {{"room_version", "10"}});
const auto creator = event_of("m.room.member", {{"membership", "join"}}, "@creator:there");
const auto derek = event_of("m.room.member", {{"membership", "join"}}, "@derek:third", "@derek:third");
const auto acl = event_of("m.room.server_acl", {{"allow", json::array({"*"})}});
const auto rule = event_of("m.room.join_rules", {{"join_rule", "public"}});

std::vector<join_event> had() {
  return {{create.id, true, false, shared_text(create.text)}, {rule.id, false, true, shared_text(rule.text)}};
}
join_state begun(std::vector<std::string> prev = {"$prev"}) { return {"!r:there", rules, had(), std::move(prev)}; }
std::string ids(const std::vector<std::string>& state, const std::vector<std::string>& chain) {
  return json{{"pdu_ids", state}, {"auth_chain_ids", chain}}.dump();
}
std::string single(const made& one) { return json{{"pdus", json::array({one.event})}}.dump(); }
const std::vector<std::string> whole{create.id, creator.id, derek.id, acl.id};

/// Everything as single events; the first problem.
std::string gather(join_state& state, const std::vector<made>& events) {
  if (auto problem = state.take_ids(ids(whole, {rule.id})); !problem.empty()) return problem;
  for (const auto& one : events)
    if (auto problem = state.take_event(single(one), one.id); !problem.empty()) return problem;
  return {};
}
std::string judge_all(join_state& state, const keys_of& keys = known) {
  while (!state.judged())
    if (auto problem = state.judge(keys, 1); !problem.empty()) return problem;
  return {};
}

} // namespace

TEST_CASE("join_state: only what is missing is asked for, and all of it becomes the state") {
  auto state = begun();
  CHECK(state.asked_at() == "$prev");
  REQUIRE(state.take_ids(ids(whole, {rule.id})) == "");
  CHECK(state.missing() == std::set<std::string>{creator.id, derek.id, acl.id, "$prev"});
  CHECK(state.is_optional("$prev"));
  CHECK_FALSE(state.is_optional(derek.id));
  CHECK_FALSE(state.wants_whole());
  for (const auto* one : {&creator, &derek, &acl})
    CHECK(state.take_event(single(*one), one->id) == "");
  state.do_without("$prev");
  CHECK(state.missing().empty());
  const auto wanted = state.wanted_keys();
  REQUIRE(wanted.size() == 2);
  CHECK(wanted.at("third") == std::map<std::string, std::int64_t>{{"ed25519:o", 1'000}});
  CHECK(judge_all(state) == "");
  CHECK(state.unverified() == 0);
  const auto all = state.take();
  CHECK(all.members.size() == 2);
  CHECK(all.members.at("@derek:third").membership == "join");
  CHECK(all.members.at("@derek:third").event_id == derek.id);
  CHECK(all.acl == R"({"allow":["*"]})");
  REQUIRE(all.events.size() == 5);
  for (const auto& one : all.events) {
    CAPTURE(one.event_id);
    CHECK(one.in_state == (one.event_id != rule.id));
    CHECK(one.in_auth_chain == (one.event_id == rule.id));
    // What the store has already comes without its body.
    CHECK(one.event.empty() == (one.event_id == create.id || one.event_id == rule.id));
  }
}

TEST_CASE("join_state: W3, a state event among the prev_events stands over the state before it") {
  const auto left = event_of("m.room.member", {{"membership", "leave"}}, "@derek:third", "@derek:third");
  auto state = begun({left.id});
  REQUIRE(gather(state, {creator, derek, acl}) == "");
  CHECK(state.missing() == std::set<std::string>{left.id});
  REQUIRE(state.take_event(single(left), left.id) == "");
  CHECK(judge_all(state) == "");
  const auto all = state.take();
  CHECK(all.members.at("@derek:third").membership == "leave");
  for (const auto& one : all.events)
    CHECK(one.event_id != derek.id);
}

TEST_CASE("join_state: much that is missing is asked for as a whole") {
  std::vector<made> members;
  std::vector<std::string> names{create.id};
  json pdus = json::array({create.event});
  for (int i = 0; i < 40; ++i) {
    const auto who = "@u" + std::to_string(i) + ":there";
    members.push_back(event_of("m.room.member", {{"membership", "join"}}, who, who));
    names.push_back(members.back().id);
    pdus.push_back(members.back().event);
  }
  auto state = begun();
  REQUIRE(state.take_ids(ids(names, {rule.id})) == "");
  CHECK(state.wants_whole());
  const json answer{{"pdus", pdus}, {"auth_chain", json::array({rule.event})}};
  CHECK(state.take_state(answer.dump()) == "");
  CHECK(state.missing() == std::set<std::string>{"$prev"}); // which is another question
  state.do_without("$prev");
  int steps = 0;
  while (!state.judged()) {
    CHECK(state.judge(known, 7) == "");
    ++steps;
  }
  CHECK(steps == 6); // 40 events came, by sevens
  CHECK(state.take().members.size() == 40);

  auto lacks = begun();
  REQUIRE(lacks.take_ids(ids(names, {rule.id})) == "");
  pdus.erase(pdus.size() - 1);
  CHECK(lacks.take_state(json{{"pdus", pdus}, {"auth_chain", json::array()}}.dump()).find(names.back()) !=
        std::string::npos);
}

TEST_CASE("join_state: answers to state_ids that can't be true") {
  struct {
    std::string answer, says;
  } table[] = {{"{}", "no list pdu_ids"},
               {"[]", "can't be used"},
               {"{", "can't be used"},
               {R"({"pdu_ids":[7],"auth_chain_ids":[]})", "no event id"},
               {R"({"pdu_ids":[""],"auth_chain_ids":[]})", "no event id"},
               {R"({"pdu_ids":["$x"]})", "no list auth_chain_ids"},
               {ids({}, {}), "no state"},
               {ids({creator.id}, {}), "m.room.create"}};
  for (const auto& [answer, says] : table) {
    CAPTURE(answer);
    const auto problem = begun().take_ids(answer);
    CHECK(problem.find(says) != std::string::npos);
  }
}

TEST_CASE("join_state: events that can't be true are counted against who gave them") {
  const auto foreign = event_of("m.room.member", {{"membership", "join"}}, "@x:there", "@x:there", "!other:there");
  const auto message = event_of("m.room.message", {{"body", "x"}}, nullptr);
  struct {
    std::string answer, id, says;
  } table[] = {{single(creator), derek.id, "gave another"},   {"{}", derek.id, "holds no event"},
               {"{\"pdus\":[", derek.id, "can't be read"},    {"{\"pdus\":[]}", derek.id, "holds no event"},
               {single(foreign), foreign.id, "another room"}, {single(message), message.id, "no state event"}};
  for (const auto& [answer, id, says] : table) {
    CAPTURE(answer);
    auto state = begun();
    auto listed = whole;
    listed.push_back(id);
    REQUIRE(state.take_ids(ids(listed, {rule.id})) == "");
    const auto problem = state.take_event(answer, id);
    CAPTURE(problem);
    CHECK(problem.find(says) != std::string::npos);
  }
  auto state = begun();
  REQUIRE(state.take_ids(ids(whole, {rule.id})) == "");
  CHECK(state.take_event(single(foreign), "$never-asked") == ""); // a late answer is nothing
}

TEST_CASE("join_state: J8, an event that can't be used costs only itself") {
  const auto huge = event_of("m.room.topic", {{"topic", std::string(70'000, 'x')}});
  auto unsigned_one = derek;
  unsigned_one.event["signatures"] = json::object();
  auto state = begun();
  auto listed = whole;
  listed.push_back(huge.id);
  REQUIRE(state.take_ids(ids(listed, {rule.id})) == "");
  const json answer{{"pdus", json::array({create.event, creator.event, unsigned_one.event, acl.event, huge.event})},
                    {"auth_chain", json::array({rule.event})}};
  REQUIRE(state.take_state(answer.dump()) == "");
  state.do_without("$prev");
  REQUIRE(judge_all(state) == "");
  CHECK(state.left_out().size() == 2);
  CHECK(state.left_out().at(derek.id) == "third never signed it");
  const auto done = state.take();
  CHECK(done.members.contains("@creator:there"));
  CHECK_FALSE(done.members.contains("@derek:third"));

  // But there is no room without its first event, and most of it must be good.
  join_state bare("!r:there", rules, {}, {"$prev"});
  auto anonymous = create;
  anonymous.event["signatures"] = json::object();
  REQUIRE(bare.take_ids(ids({create.id, creator.id}, {})) == "");
  CHECK(bare.take_event(single(anonymous), create.id).find("never signed") != std::string::npos);
  auto poor = begun();
  REQUIRE(poor.take_ids(ids({create.id, derek.id, creator.id, acl.id}, {})) == "");
  for (auto one : {derek, creator, acl}) {
    one.event["signatures"] = json::object();
    REQUIRE(poor.take_event(single(one), one.id) == "");
  }
  CHECK(judge_all(poor).find("more than half") != std::string::npos);
}

TEST_CASE("join_state: signatures") {
  const auto forged = event_of("m.room.member", {{"membership", "join"}}, "@derek:third", "@derek:third", "!r:there",
                               &theirs); // in third's name, by another key under another id
  auto bad = derek;
  bad.event["signatures"]["third"]["ed25519:o"] = forged.event["signatures"]["third"]["ed25519:t"];
  auto wrong = begun();
  REQUIRE(gather(wrong, {creator, bad, acl}) == "");
  wrong.do_without("$prev");
  CHECK(judge_all(wrong) == "");
  CHECK(wrong.left_out().at(derek.id) == "the signature of third is wrong");
  CHECK_FALSE(wrong.take().members.contains("@derek:third"));

  auto unknown = begun();
  REQUIRE(gather(unknown, {creator, derek, acl}) == "");
  CHECK(judge_all(unknown, {{"there", {{"ed25519:t", theirs.public_key()}}}, {"third", {{"ed25519:o", ""}}}}) == "");
  CHECK(unknown.unverified() == 1); // its server is dead: passed on as such (J8)
}
