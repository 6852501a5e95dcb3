#include "actors/list_answer.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

const std::string bob = "@bob:r.test";

json device(const std::string& id, const std::string& user = bob) {
  return {{"device_id", id},
          {"device_display_name", "name of " + id},
          {"keys",
           {{"user_id", user}, {"device_id", id}, {"algorithms", json::array()}, {"keys", {{"ed25519:" + id, "K"}}}}}};
}
json list(const json& devices) { return {{"user_id", bob}, {"stream_id", 7}, {"devices", devices}}; }
read_list read(const json& body, std::size_t most = 100) { return read_device_list(bob, 200, body.dump(), most); }

} // namespace

TEST_CASE("a device list is read whole") {
  auto body = list({device("D1"), device("D2")});
  body["master_key"] = {{"user_id", bob}, {"usage", {"master"}}, {"keys", {{"ed25519:M", "M"}}}};
  body["self_signing_key"] = {{"user_id", bob}, {"usage", {"self_signing"}}, {"keys", {{"ed25519:S", "S"}}}};
  const auto got = read(body);
  CHECK(got.how == fetch_end::list);
  CHECK(got.list.is == save_device_list::outcome::list);
  CHECK(got.list.user == bob);
  CHECK(got.list.stream_id == 7);
  REQUIRE(got.list.devices.size() == 2);
  CHECK(got.list.devices[0].device == "D1");
  CHECK(got.list.devices[0].display_name == "name of D1");
  CHECK(json::parse(got.list.devices[1].keys) == device("D2")["keys"]);
  CHECK(json::parse(got.list.master_key) == body["master_key"]);
  CHECK(json::parse(got.list.self_signing_key) == body["self_signing_key"]);
  const auto empty = read(list(json::array()));
  CHECK(empty.how == fetch_end::list);
  CHECK(empty.list.devices.empty());
}

TEST_CASE("one device that is nested too deep costs only itself") {
  for (const int levels : {100, 500, 900}) {
    CAPTURE(levels);
    auto deep = device("D9");
    deep["keys"]["x"] = json::parse(std::string(std::size_t(levels), '[') + std::string(std::size_t(levels), ']'));
    const auto got = read(list({device("D1"), deep, device("D2")}));
    CHECK(got.how == fetch_end::list);
    CHECK(got.list.devices.size() == 2);
  }
}

TEST_CASE("one device that can't be used costs only itself") {
  auto nul = device("D9");
  nul["device_id"] = std::string("D\0", 2);
  auto large = device("D8");
  large["keys"]["x"] = std::string(70'000, 'x');
  auto unnamed = device("D7");
  unnamed["device_display_name"] = 3;
  auto keyless = device("D6");
  keyless.erase("keys");
  const json lenient = {{"device_id", "D5"}, {"keys", {{"device_keys", json::object()}}}}; // L18
  auto fraction = device("D3");
  fraction["keys"]["n"] = 0.5;
  auto body = list({device("D1"),
                    device("D2", "@eve:r.test"),
                    json(7),
                    {{"keys", json::object()}},
                    device("M"),
                    nul,
                    large,
                    fraction,
                    unnamed,
                    keyless,
                    lenient,
                    device("D1")});
  body["devices"][1]["device_id"] = "D2";
  body["master_key"] = {{"user_id", bob}, {"keys", {{"ed25519:M", "M"}}}}; // L16: no device is called so
  body["self_signing_key"] = {{"user_id", "@eve:r.test"}, {"keys", {{"ed25519:S", "S"}}}};
  const auto got = read(body);
  CHECK(got.how == fetch_end::list);
  std::string ids;
  for (const auto& one : got.list.devices)
    ids += one.device + " ";
  CHECK(ids == "D1 D7 D6 D5 ");
  CHECK(got.list.devices[1].display_name.empty());
  CHECK(got.list.devices[2].keys.empty());
  CHECK(got.list.devices[3].keys == R"({"device_keys":{}})");
  CHECK_FALSE(got.list.master_key.empty());
  CHECK(got.list.self_signing_key.empty());
}

TEST_CASE("an answer that can't be used is a refusal, with its reason") {
  auto other = list(json::array()), no_stream = other, no_list = other;
  other["user_id"] = "@eve:r.test";
  no_stream.erase("stream_id");
  no_list["devices"] = "none";
  for (const auto& [body, word] : std::vector<std::pair<std::string, std::string>>{{other.dump(), "another user"},
                                                                                   {no_stream.dump(), "stream_id"},
                                                                                   {no_list.dump(), "list of devices"},
                                                                                   {"[]", "JSON object"},
                                                                                   {"{", "can't be used"},
                                                                                   {"", "can't be used"}}) {
    const auto got = read_device_list(bob, 200, body, 100);
    CHECK(got.how == fetch_end::refused);
    CHECK(got.list.is == save_device_list::outcome::refused);
    CHECK(got.list.problem.find(word) != std::string::npos);
  }
}

TEST_CASE("a refusal says what the server said; 404 is a user that it doesn't know") {
  const auto gone = read_device_list(bob, 404, R"({"errcode":"M_NOT_FOUND","error":"no such user"})", 100);
  CHECK(gone.how == fetch_end::unknown);
  CHECK(gone.list.is == save_device_list::outcome::refused);
  CHECK(gone.list.problem == "its server answered 404 (M_NOT_FOUND: no such user)");
  for (const auto status : {301, 400, 403, 405, 410}) {
    const auto got = read_device_list(bob, status, "<html>", 100);
    CHECK(got.how == fetch_end::refused);
    CHECK(got.list.problem == "its server answered " + std::to_string(status));
  }
}

TEST_CASE("more devices than the limit are too many, as many are not") {
  auto devices = json::array();
  for (int i = 0; i < 10; ++i)
    devices.push_back(device("D" + std::to_string(i)));
  CHECK(read(list(devices), 10).list.devices.size() == 10);
  const auto got = read(list(devices), 9);
  CHECK(got.how == fetch_end::too_large);
  CHECK(got.list.is == save_device_list::outcome::too_large);
  CHECK(got.list.devices.empty());
  CHECK(got.list.problem.find("more than 9") != std::string::npos);
}
