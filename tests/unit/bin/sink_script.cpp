#include "bin/sink_script.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::string from_us = R"(X-Matrix origin="us.test",destination="r.test",key="ed25519:1",sig="x")";

json event(const std::string& body) {
  return {{"type", "m.room.message"},     {"room_id", "!r:us.test"},      {"sender", "@a:us.test"},
          {"content", {{"body", body}}},  {"origin_server_ts", 1},        {"depth", 1},
          {"hashes", {{"sha256", body}}}, {"signatures", json::object()}, {"prev_events", json::array()},
          {"auth_events", json::array()}};
}
std::string transaction(const std::vector<json>& pdus, const std::vector<json>& edus = {}) {
  return json{{"origin", "us.test"}, {"origin_server_ts", 1}, {"pdus", pdus}, {"edus", edus}}.dump();
}
/// The event's id, as a script without any behaviour tells it.
std::string id_of(const json& pdu) {
  auto said = sink_script("r.test", "10", {}).receive("t", transaction({pdu}), from_us, 1);
  return json::parse(said.lines.at(1))["event_id"];
}
std::vector<std::string> kinds(const sink_answer& said) {
  std::vector<std::string> out;
  for (const auto& line : said.lines)
    out.push_back(json::parse(line)["what"]);
  return out;
}

} // namespace

TEST_CASE("sink: a transaction is told once, a repeat gets the same answer") {
  sink_script script("r.test", "10", {});
  const json typing{{"edu_type", "m.typing"}, {"content", json::object()}};
  auto body = transaction({event("a"), event("b")}, {typing});
  auto said = script.receive("t1", body, from_us, 42);
  CHECK(said.status == 200);
  CHECK(kinds(said) == std::vector<std::string>{"transaction", "pdu", "pdu", "edu"});
  auto told = json::parse(said.lines[0]);
  CHECK(told["at_ms"] == 42);
  CHECK(told["origin"] == "us.test");
  CHECK(told["pdus"] == 2);
  CHECK(told["edus"] == 1);
  CHECK(told["repeated"] == false);
  CHECK(json::parse(said.lines[3])["edu_type"] == "m.typing");
  CHECK(json::parse(said.body)["pdus"].size() == 2);
  auto again = script.receive("t1", body, from_us, 43);
  CHECK(again.body == said.body);
  CHECK(kinds(again) == std::vector<std::string>{"transaction"});
  CHECK(json::parse(again.lines[0])["repeated"] == true);
}

TEST_CASE("sink: --fail answers so often, then all is well; the same transaction comes through") {
  sink_script script("r.test", "10", {.failures = {parse_failing("503:2"), parse_failing("429")}});
  auto body = transaction({event("a")});
  for (int status : {503, 503, 429}) {
    auto said = script.receive("t1", body, from_us, 1);
    CHECK(said.status == status);
    CHECK(json::parse(said.body).contains("errcode"));
    CHECK(kinds(said) == std::vector<std::string>{"transaction"});
  }
  CHECK(script.receive("t1", body, from_us, 1).status == 200);
}

TEST_CASE("sink: --refuse is a verdict on one event, --poison on the whole transaction") {
  auto bad = id_of(event("bad"));
  sink_script refusing("r.test", "10", {.refuse = {bad}});
  auto said = refusing.receive("t", transaction({event("good"), event("bad")}), from_us, 1);
  CHECK(said.status == 200);
  auto verdicts = json::parse(said.body)["pdus"];
  CHECK(verdicts[bad].contains("error"));
  CHECK(verdicts[id_of(event("good"))] == json::object());

  sink_script poisoned("r.test", "10", {.poison = {bad}});
  said = poisoned.receive("t", transaction({event("good"), event("bad")}), from_us, 1);
  CHECK(said.status == 400);
  CHECK(kinds(said) == std::vector<std::string>{"transaction"});
  CHECK(poisoned.receive("t2", transaction({event("good")}), from_us, 1).status == 200);
}

TEST_CASE("sink: what no homeserver takes") {
  sink_script script("r.test", "10", {});
  CHECK(script.receive("t", transaction({}), "", 1).status == 401);
  CHECK(
      script
          .receive("t", transaction({}), R"(X-Matrix origin="us.test",destination="s.test",key="ed25519:1",sig="x")", 1)
          .status == 401);
  CHECK(script.receive("t", "{", from_us, 1).status == 400);
  CHECK(script.receive("t", "[]", from_us, 1).status == 400);
  CHECK(script.receive("t", transaction(std::vector<json>(51, event("a"))), from_us, 1).status == 400);
  CHECK(script.receive("t", transaction({}, std::vector<json>(101, json::object())), from_us, 1).status == 400);
}

TEST_CASE("sink: --fail") {
  CHECK(parse_failing("503").times == 1);
  CHECK(parse_failing("503:10").times == 10);
  CHECK(parse_failing("503:10").status == 503);
  for (const char* wrong : {"", ":", "503:", "503:0", "503:-1", "99", "600", "x", "503:1x", "503x"})
    CHECK_THROWS_AS(parse_failing(wrong), std::invalid_argument);
}
