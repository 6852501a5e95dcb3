#include "actors/key_desk.hpp"

#include "messages/ids.hpp"
#include "tests/unit/actors/ingress_bench.hpp"

using namespace ranvier;
using namespace ranvier::testing;

namespace {

const std::string alice = "@alice:" + std::string(us), bob = "@bob:remote.test", eve = "@eve:other.test";

known_keys_of_user user_keys(list_state state, const std::string& device = "") {
  known_keys_of_user out;
  out.state = state;
  if (!device.empty()) out.devices[device] = R"({"of":")" + device + R"("})";
  return out;
}
json ask(ingress_bench& f, const std::vector<std::string>& users, const std::string& query = "") {
  json body{{"device_keys", json::object()}, {"timeout", 2'000}};
  for (const auto& user : users)
    body["device_keys"][user] = json::array();
  const auto answer = f.host("POST", "/_ranvier/v1/keys/query" + query, body.dump());
  CHECK(answer.status == 200);
  return json::parse(answer.body);
}

} // namespace

TEST_CASE("key desk: our users and true lists are answered from storage, nobody else is asked") {
  ingress_bench f;
  f.says->known.users = {{alice, user_keys(list_state::own, "A1")}, {bob, user_keys(list_state::fresh, "B1")}};
  const auto got = ask(f, {alice, bob, "@nobody:" + std::string(us)});
  CHECK(got["device_keys"] == json{{alice, {{"A1", {{"of", "A1"}}}}}, {bob, {{"B1", {{"of", "B1"}}}}}});
  CHECK(got["failures"] == json::object());
  CHECK(f.says->pulls.empty());
  CHECK(f.says->refreshes.empty());
}

TEST_CASE("key desk: lists that are stale or not held are refreshed by their servers, then read again") {
  ingress_bench f;
  f.says->known.users = {{bob, user_keys(list_state::stale, "old")}, {eve, user_keys(list_state::not_held)}};
  f.says->known_later.users = {{bob, user_keys(list_state::fresh, "new")}, {eve, user_keys(list_state::fresh, "E1")}};
  const auto got = ask(f, {bob, eve});
  CHECK(got["device_keys"][bob] == json{{"new", {{"of", "new"}}}});
  CHECK(got["device_keys"][eve] == json{{"E1", {{"of", "E1"}}}});
  CHECK(got["failures"] == json::object());
  auto asked = f.says->refreshes;
  std::sort(asked.begin(), asked.end());
  CHECK(asked == std::vector<std::string>{"other.test " + eve, "remote.test " + bob});
}

TEST_CASE("key desk: what can't be made true is given as it was last known, with a failure that names the server") {
  ingress_bench f;
  f.says->known.users = {{bob, user_keys(list_state::stale, "old")}};
  f.says->known_later = f.says->known;
  f.says->lists.server_problem = "remote.test is closed";
  f.says->lists.failed = {{bob, "remote.test is closed"}};
  auto got = ask(f, {bob});
  CHECK(got["device_keys"][bob] == json{{"old", {{"of", "old"}}}});
  CHECK(got["failures"]["remote.test"]["error"] == "remote.test is closed");
  // F2: that a server doesn't know a user is no failure, unless a list of it is held.
  f.says->lists = {};
  f.says->lists.failed = {{bob, "404"}, {eve, "404"}};
  f.says->lists.unknown = {bob, eve};
  f.says->refreshes.clear();
  f.says->known.users[eve] = user_keys(list_state::not_held);
  f.says->known_later = f.says->known;
  got = ask(f, {bob, eve});
  CHECK(got["failures"].size() == 1);
  CHECK(got["failures"].contains("remote.test"));
  CHECK_FALSE(got["device_keys"].contains(eve));
}

TEST_CASE("key desk: whoever shares no room, or has too many devices, is asked for directly") {
  ingress_bench f;
  f.says->known.users = {{bob, user_keys(list_state::not_shared)}, {eve, user_keys(list_state::not_held)}};
  f.says->known_later.users = {{eve, user_keys(list_state::too_large)}};
  f.says->answer = {200,
                    shared_text(json{{"device_keys",
                                      {{bob, {{"B1", {{"user_id", bob}, {"device_id", "B1"}}}}},
                                       {eve, {{"E1", {{"user_id", eve}, {"device_id", "E1"}}}}}}}}
                                    .dump()),
                    "", 5};
  const auto got = ask(f, {bob, eve});
  CHECK(got["device_keys"][bob].contains("B1"));
  CHECK(got["device_keys"][eve].contains("E1"));
  CHECK(got["failures"] == json::object());
  CHECK(f.says->pulls ==
        std::vector<std::string>{
            "POST remote.test/_matrix/federation/v1/user/keys/query {\"device_keys\":{\"" + bob + "\":[]}}",
            "POST other.test/_matrix/federation/v1/user/keys/query {\"device_keys\":{\"" + eve + "\":[]}}"});
  for (const auto& [answer, word] :
       std::vector<std::pair<pulled, std::string>>{{{0, {}, "the gate is closed", 0}, "gate"},
                                                   {{502, {}, "", 0}, "502"},
                                                   {{200, {}, "", 0}, "can't be used"}}) {
    f.says->answer = answer;
    f.says->refreshes.clear();
    const auto failed = ask(f, {bob});
    CHECK(failed["failures"]["remote.test"]["error"].get<std::string>().find(word) != std::string::npos);
  }
}

TEST_CASE("key desk: bad bodies and parameters are refused") {
  ingress_bench f;
  for (const auto* path : {"query", "claim"})
    for (const auto* body : {"{}", "[]", "{", R"({"device_keys":{"@a:x":{}}})", R"({"one_time_keys":{"@a:x":[]}})"}) {
      const auto answer = f.host("POST", std::string("/_ranvier/v1/keys/") + path, body);
      CHECK(answer.status == 400);
      CHECK(code_of(answer) == (std::string(body) == "{" ? "M_NOT_JSON" : "M_BAD_JSON"));
    }
  CHECK(f.host("POST", "/_ranvier/v1/keys/query?requester=@bob:remote.test", R"({"device_keys":{}})").status == 400);
  const std::string counts = "/_ranvier/v1/one_time_keys/counts", changes = "/_ranvier/v1/device_lists/changes";
  CHECK(json::parse(f.host("GET", counts + "?user_id=" + alice + "&device_id=D1").body) ==
        json{{"counts", {{"alg", 3}}}, {"unused_fallback_key_types", {"alg"}}});
  CHECK(f.host("GET", counts + "?user_id=" + bob + "&device_id=D1").status == 400);
  CHECK(f.host("GET", counts + "?user_id=" + alice).status == 400);
  CHECK(json::parse(f.host("GET", changes + "?user_id=" + alice + "&from=0&to=5").body) ==
        json{{"changed", {"@c:remote.test"}}, {"left", json::array()}, {"limited", true}});
  for (const auto* range : {"", "&from=1", "&from=2&to=1", "&from=-1&to=1", "&from=x&to=1"})
    CHECK(f.host("GET", changes + "?user_id=" + alice + range).status == 400);
}

TEST_CASE("key desk: claims go to the ledger and to other servers; whose keys can't be had is a failure") {
  ingress_bench f;
  f.says->claimed.keys[alice]["A1"]["alg:1"] = R"({"k":1})";
  f.says->answer = {200, shared_text(json{{"one_time_keys", {{bob, {{"B1", {{"alg:2", "key"}}}}}}}}.dump()), "", 5};
  const json body{{"one_time_keys", {{alice, {{"A1", "alg"}}}, {bob, {{"B1", "alg"}}}}}};
  auto got = json::parse(f.host("POST", "/_ranvier/v1/keys/claim", body.dump()).body);
  CHECK(got ==
        json{{"one_time_keys", {{alice, {{"A1", {{"alg:1", {{"k", 1}}}}}}}, {bob, {{"B1", {{"alg:2", "key"}}}}}}},
             {"failures", json::object()}});
  f.says->claimed = {};
  f.says->claimed.ok = false;
  f.says->claimed.problem = "disk full";
  f.says->answer = {0, {}, "the gate is closed", 0};
  got = json::parse(f.host("POST", "/_ranvier/v1/keys/claim", body.dump()).body);
  CHECK(got["one_time_keys"] == json::object());
  CHECK(got["failures"].size() == 2);
}

TEST_CASE("key desk: what another server asks is authenticated, and of our users only") {
  ingress_bench f;
  f.says->own = {true, R"({"user_id":"x"})"};
  const auto devices = "devices/" + percent_encode(alice);
  auto answer = f.federation(f.key_text("GET", devices));
  CHECK(answer.status == 200);
  CHECK(answer.body == R"({"user_id":"x"})");
  f.says->own = {};
  CHECK(f.federation(f.key_text("GET", devices)).status == 404);
  CHECK(f.federation(f.key_text("GET", "devices/" + percent_encode(bob))).status == 404);
  CHECK(f.federation(f.key_text("GET", "devices/nobody")).status == 400);
  CHECK(f.federation(request("GET", "/_matrix/federation/v1/user/" + devices, "")).status == 401);
  CHECK_FALSE(f.says->heard.empty()); // evidence that it lives

  f.says->known.users = {{alice, user_keys(list_state::own, "A1")}, {bob, user_keys(list_state::fresh, "B1")}};
  const json query{{"device_keys", {{alice, json::array()}, {bob, json::array()}}}};
  answer = f.federation(f.key_text("POST", "keys/query", query.dump()));
  CHECK(answer.status == 200);
  CHECK(json::parse(answer.body)["device_keys"] == json{{alice, {{"A1", {{"of", "A1"}}}}}});
  CHECK_FALSE(json::parse(answer.body).contains("failures"));

  f.says->claimed.keys[alice]["A1"]["alg:1"] = "\"key\"";
  const json claim{{"one_time_keys", {{alice, {{"A1", "alg"}}}, {bob, {{"B1", "alg"}}}}}};
  answer = f.federation(f.key_text("POST", "keys/claim", claim.dump()));
  CHECK(json::parse(answer.body) == json{{"one_time_keys", {{alice, {{"A1", {{"alg:1", "key"}}}}}}}});
  CHECK(f.says->claims == std::vector<std::string>{alice});
  f.says->claimed.ok = false;
  answer = f.federation(f.key_text("POST", "keys/claim", claim.dump()));
  CHECK(answer.status == 503);
  CHECK(f.federation(f.key_text("POST", "keys/claim", R"({"one_time_keys":[]})")).status == 400);
}
