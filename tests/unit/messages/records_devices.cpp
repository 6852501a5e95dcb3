#include "tests/unit/messages/record_lines.hpp"

using namespace ranvier;
using namespace ranvier::lines;

TEST_CASE("records: device") {
  auto one = good<device_record>(device({{"display_name", "phone"}, {"initial", true}}));
  CHECK(one.keys.given());
  CHECK(one.keys.value == device_keys().dump());
  CHECK(one.display_name.value == "phone");
  CHECK(one.initial);
  CHECK_FALSE(one.deleted);
  auto bare = good<device_record>(device({{"-keys", 0}}));
  CHECK_FALSE(bare.keys.given());
  CHECK_FALSE(bare.keys.removed());
  auto removed = good<device_record>(device({{"keys", nullptr}, {"display_name", nullptr}}));
  CHECK(removed.keys.removed());
  CHECK(removed.display_name.removed());
  CHECK(good<device_record>(device({{"-keys", 0}, {"deleted", true}})).deleted);
  check_refused({
      {device({{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
      {device({{"device_id", ""}}), "M_INVALID_PARAM", "must not be empty"},
      {device({{"device_id", std::string("D\0", 2)}}), "M_INVALID_PARAM", "NUL"},
      {device({{"deleted", "yes"}}), "M_BAD_JSON", "true or false"},
      {device({{"display_name", 1}}), "M_BAD_JSON", "\"display_name\" must be a string"},
      {device({{"display_name", std::string(4'097, 'x')}}), "M_TOO_LARGE", "4096 bytes"},
      {device({{"display_name", std::string("a\0b", 3)}}), "M_INVALID_PARAM", "NUL"},
  });
}

TEST_CASE("records: malformed device keys are refused") {
  auto keys = [](const json& changes) { return device({{"keys", device_keys(changes)}}); };
  check_refused({
      {device({{"keys", json::array()}}), "M_BAD_JSON", "\"keys\" must be a JSON object"},
      {device({{"keys", "x"}}), "M_BAD_JSON", "\"keys\" must be a JSON object"},
      {device({{"keys", json::object()}}), "M_BAD_JSON", "\"keys.user_id\" is missing"},
      {keys({{"user_id", "@b:us.test"}}), "M_INVALID_PARAM", "\"keys.user_id\" must be \"@a:us.test\""},
      {keys({{"device_id", "E"}}), "M_INVALID_PARAM", "\"keys.device_id\" must be \"D\""},
      {keys({{"algorithms", "x"}}), "M_BAD_JSON", "list of strings"},
      {keys({{"algorithms", {1}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"keys", nullptr}}), "M_BAD_JSON", "\"keys.keys\" is missing"},
      {keys({{"keys", {"x"}}}), "M_BAD_JSON", "\"keys.keys\" must be a JSON object"},
      {keys({{"keys", {{"ed25519:D", 1}}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"-signatures", 0}}), "M_BAD_JSON", "\"keys.signatures\" is missing"},
      {keys({{"signatures", {{"@a:us.test", "x"}}}}), "M_BAD_JSON", "must be a JSON object"},
      {keys({{"signatures", {{"@a:us.test", {{"ed25519:D", 1}}}}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"x", std::string(70'000, 'x')}}), "M_TOO_LARGE", "at most 65536"},
      {keys({{"x", std::string("a\0b", 3)}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"x", {{std::string("a\0b", 3), 1}}}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"x", nested(30)}}), "M_BAD_JSON", "nested"},
      {keys({{"x", nested(500)}}), "M_BAD_JSON", ""},
      {keys({{"x", 1.5}}), "M_BAD_JSON", "\"keys\" can't be sent"},
  });
}

TEST_CASE("records: cross_signing") {
  const json base{{"kind", "cross_signing"}, {"user_id", "@a:us.test"}};
  auto one = good<cross_signing_record>(with(base, {{"master_key", cross_key("master", {{"-signatures", 0}})},
                                                    {"self_signing_key", cross_key("self_signing")},
                                                    {"user_signing_key", nullptr}}));
  CHECK(one.master_key.given());
  CHECK(one.self_signing_key.value == cross_key("self_signing").dump());
  CHECK(one.user_signing_key.removed());
  auto nothing = good<cross_signing_record>(base);
  CHECK_FALSE(nothing.master_key.given());
  CHECK_FALSE(nothing.master_key.removed());
  auto self = [&](const json& changes) {
    return with(base, {{"self_signing_key", cross_key("self_signing", changes)}});
  };
  check_refused({
      {with(base, {{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
      {with(base, {{"master_key", "x"}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"master_key", cross_key("self_signing")}}), "M_INVALID_PARAM", "must hold \"master\""},
      {self({{"user_id", "@b:us.test"}}), "M_INVALID_PARAM", "must be \"@a:us.test\""},
      {self({{"usage", "self_signing"}}), "M_BAD_JSON", "list of strings"},
      {self({{"keys", json::object()}}), "M_INVALID_PARAM", "exactly one key"},
      {self({{"keys", {{"ed25519:A", "A"}, {"ed25519:B", "B"}}}}), "M_INVALID_PARAM", "exactly one key"},
      {self({{"keys", {{"ed25519:A", "B"}}}}), "M_INVALID_PARAM", "named ed25519:"},
      {self({{"keys", {{"ed25519:A", 1}}}}), "M_BAD_JSON", "must be a string"},
      {self({{"-signatures", 0}}), "M_BAD_JSON", "\"self_signing_key.signatures\" is missing"},
      {self({{"signatures", json::object()}}), "M_INVALID_PARAM", "the master key must have signed it"},
      {self({{"x", std::string(70'000, 'x')}}), "M_TOO_LARGE", "65536"},
      {self({{"x", std::string("a\0b", 3)}}), "M_INVALID_PARAM", "NUL"},
      {self({{"x", nested(30)}}), "M_BAD_JSON", "nested"},
      {self({{"keys", nullptr}}), "M_BAD_JSON", "\"self_signing_key.keys\" is missing"},
      {self({{"keys", {"x"}}}), "M_BAD_JSON", "must be a JSON object"},
      {self({{"signatures", {"x"}}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"user_signing_key", json::array()}}), "M_BAD_JSON", "must be a JSON object"},
  });
}

TEST_CASE("records: one_time_keys") {
  const json base{{"kind", "one_time_keys"}, {"user_id", "@a:us.test"}, {"device_id", "D"}};
  auto one = good<one_time_keys_record>(
      with(base, {{"one_time_keys",
                   {{"curve25519:A", "k"}, {"signed_curve25519:B", {{"key", "k"}, {"signatures", json::object()}}}}},
                  {"fallback_keys", {{"signed_curve25519:F", {{"key", "f"}, {"fallback", true}}}}}}));
  CHECK(one.one_time_keys.at("curve25519:A") == "\"k\"");
  CHECK(one.one_time_keys.at("signed_curve25519:B") == R"({"key":"k","signatures":{}})");
  CHECK(one.fallback_keys.value.size() == 1);
  CHECK(good<one_time_keys_record>(with(base, {{"fallback_keys", nullptr}})).fallback_keys.removed());
  CHECK_FALSE(good<one_time_keys_record>(base).fallback_keys.given());
  auto keys = [&](const json& given) { return with(base, {{"one_time_keys", given}}); };
  check_refused({
      {keys(nullptr), "M_BAD_JSON", "can't be null"},
      {keys(json::array()), "M_BAD_JSON", "must be a JSON object"},
      {keys({{"curve25519", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{":A", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{"curve25519:", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{"curve25519:A", 1}}), "M_BAD_JSON", "a string or an object"},
      {keys({{"curve25519:A", nullptr}}), "M_BAD_JSON", "a string or an object"},
      {keys({{"curve25519:A", json::object()}}), "M_BAD_JSON", "key\" is missing"},
      {keys({{std::string("curve25519:\0", 12), "k"}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"curve25519:A", {"k"}}}), "M_BAD_JSON", "a string or an object"},
      {keys({{"curve25519:A", std::string(70'000, 'x')}}), "M_TOO_LARGE", "4096 bytes"},
      {keys({{"curve25519:A", std::string("a\0b", 3)}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"curve25519:A", {{"key", std::string(70'000, 'x')}}}}), "M_INVALID_PARAM", "4096"},
      {keys({{"curve25519:A", {{"key", "k"}, {"x", std::string(70'000, 'x')}}}}), "M_TOO_LARGE", "at most 65536"},
      {keys({{"curve25519:A", {{"key", std::string("a\0b", 3)}}}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"curve25519:A", {{"key", "k"}, {"x", nested(30)}}}}), "M_BAD_JSON", "nested"},
      {keys({{"curve25519:A", {{"key", "k"}, {"signatures", "x"}}}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"fallback_keys", json::array()}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"fallback_keys", {{"a:A", 1}}}}), "M_BAD_JSON", "a string or an object"},
      {with(base, {{"-device_id", 0}}), "M_BAD_JSON", "\"device_id\" is missing"},
      {with(base, {{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
  });
}
