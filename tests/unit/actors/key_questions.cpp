#include "actors/key_questions.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

query_read query_of(const json& body) {
  const json_document document(body.dump());
  return read_query(document.root());
}
claim_read claim_of(const json& body) {
  const json_document document(body.dump());
  return read_claim(document.root());
}
json device(const std::string& user, const std::string& id) { return {{"user_id", user}, {"device_id", id}}; }

} // namespace

TEST_CASE("keys/query: users, devices and the time; F3: an object instead of a list is refused") {
  const auto all = query_of({{"device_keys", {{"@a:x", json::array()}, {"@b:y", {"D1", "D2"}}}}, {"timeout", 500}});
  CHECK(all.problem.empty());
  CHECK(all.users == devices_asked{{"@a:x", {}}, {"@b:y", {"D1", "D2"}}});
  CHECK(all.timeout_ms == 500);
  CHECK(query_of({{"device_keys", json::object()}}).timeout_ms == 10'000);
  CHECK(query_of({{"device_keys", json::object()}, {"timeout", 999'999'999}}).timeout_ms == 120'000);
  // What is no user id costs nobody else its answer.
  CHECK(query_of({{"device_keys", {{"a", json::array()}, {"@b:y", json::array()}, {"@c", json::array()}}}}).users ==
        devices_asked{{"@b:y", {}}});
  for (const auto& bad :
       {json::object(), json::array(), json{{"device_keys", 3}}, json{{"device_keys", {{"@a:x", json::object()}}}},
        json{{"device_keys", {{"@a:x", "D1"}}}}, json{{"device_keys", {{"@a:x", {1}}}}},
        json{{"device_keys", json::object()}, {"timeout", -1}},
        json{{"device_keys", json::object()}, {"timeout", "1"}}})
    CHECK_FALSE(query_of(bad).problem.empty());
}

TEST_CASE("keys/claim: what is wanted, and what is refused") {
  const auto all = claim_of({{"one_time_keys", {{"@a:x", {{"D1", "alg"}}}, {"nobody", {{"D", "alg"}}}}}});
  CHECK(all.problem.empty());
  CHECK(all.wanted == keys_claimed{{"@a:x", {{"D1", "alg"}}}});
  for (const auto& bad :
       {json::object(), json{{"one_time_keys", {{"@a:x", {"D1"}}}}}, json{{"one_time_keys", {{"@a:x", {{"D1", 1}}}}}},
        json{{"one_time_keys", json::object()}, {"timeout", -1}}})
    CHECK_FALSE(claim_of(bad).problem.empty());
}

TEST_CASE("what we ask of another server") {
  CHECK(query_text({{"@a:x", {}}, {"@b:\"", {"D1", "D2"}}}) == R"({"device_keys":{"@a:x":[],"@b:\"":["D1","D2"]}})");
  CHECK(claim_text({{"@a:x", {{"D1", "alg"}, {"D2", "alg"}}}}) ==
        R"({"one_time_keys":{"@a:x":{"D1":"alg","D2":"alg"}}})");
}

TEST_CASE("another server's answer: only who was asked for, only what names the right user and device") {
  const json body = {
      {"device_keys",
       {{"@a:x", {{"D1", device("@a:x", "D1")}, {"D2", device("@a:x", "D1")}, {"D3", device("@e:x", "D3")}, {"D4", 1}}},
        {"@eve:x", {{"D1", device("@eve:x", "D1")}}},
        {"@none:x", json::object()}}},
      {"master_keys", {{"@a:x", {{"user_id", "@a:x"}}}, {"@keys:x", {{"user_id", "@keys:x"}}}}},
      {"self_signing_keys", {{"@a:x", {{"user_id", "@eve:x"}}}}}};
  const auto got = read_query_answer(body.dump(), {{"@a:x", {}}, {"@none:x", {}}, {"@keys:x", {}}, {"@gone:x", {}}});
  CHECK(got.problem.empty());
  CHECK(got.users.size() == 3);
  CHECK(got.users.at("@a:x").devices.size() == 1);
  CHECK(got.users.at("@a:x").devices.contains("D1"));
  CHECK_FALSE(got.users.at("@a:x").master_key.empty());
  CHECK(got.users.at("@a:x").self_signing_key.empty());
  CHECK(got.users.at("@none:x").devices.empty());
  CHECK_FALSE(got.users.at("@keys:x").master_key.empty());
  for (const auto* bad : {"", "[]", "{}", R"({"device_keys":[]})"})
    CHECK_FALSE(read_query_answer(bad, {{"@a:x", {}}}).problem.empty());
}

TEST_CASE("another server's answer to a claim: one key for each device, of the right algorithm") {
  const json body = {{"one_time_keys",
                      {{"@a:x",
                        {{"D1", {{"alg:1", {{"key", "k"}, {"fallback", true}}}, {"alg:2", "second"}}},
                         {"D2", {{"other:1", "k"}}},
                         {"D3", {{"alg:3", "text"}}},
                         {"D4", {{"alg:4", 7}}},
                         {"D9", {{"alg:9", "unasked"}}}}},
                       {"@eve:x", {{"D1", {{"alg:1", "k"}}}}}}}};
  const auto got = read_claim_answer(
      body.dump(), {{"@a:x", {{"D1", "alg"}, {"D2", "alg"}, {"D3", "alg"}, {"D4", "alg"}}}, {"@b:x", {{"D", "alg"}}}});
  CHECK(got.problem.empty());
  CHECK(json::parse(claim_result_text(got.keys, nullptr)) ==
        json{{"one_time_keys",
              {{"@a:x", {{"D1", {{"alg:1", {{"key", "k"}, {"fallback", true}}}}}, {"D3", {{"alg:3", "text"}}}}}}}});
  CHECK_FALSE(read_claim_answer("{}", {}).problem.empty());
}

TEST_CASE("an answer to keys/query: the devices asked for, all kinds of keys, failures with a reason each") {
  known_keys_of_user keys;
  keys.devices = {{"D1", R"({"a":1})"}, {"D2", R"({"b":2})"}};
  keys.master_key = R"({"m":1})";
  keys.self_signing_key = R"({"s":1})";
  keys.user_signing_key = R"({"u":1})";
  query_result result;
  result.add("@a:x", keys, {"D2", "D3"});
  result.add("@b:y", {});
  result.fail("z", "first");
  result.fail("z", "second");
  const auto got = json::parse(result.text());
  CHECK(got["device_keys"] == json{{"@a:x", {{"D2", {{"b", 2}}}}}, {"@b:y", json::object()}});
  CHECK(got["master_keys"] == json{{"@a:x", {{"m", 1}}}});
  CHECK(got["self_signing_keys"] == json{{"@a:x", {{"s", 1}}}});
  CHECK(got["user_signing_keys"] == json{{"@a:x", {{"u", 1}}}});
  CHECK(got["failures"]["z"]["error"] == "first");
  const auto federated = json::parse(result.text(false));
  CHECK_FALSE(federated.contains("failures"));
  CHECK_FALSE(federated.contains("user_signing_keys"));
  CHECK(json::parse(query_result().text()) == json{{"device_keys", json::object()},
                                                   {"failures", json::object()},
                                                   {"master_keys", json::object()},
                                                   {"self_signing_keys", json::object()},
                                                   {"user_signing_keys", json::object()}});
}
