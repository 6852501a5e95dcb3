#include "actors/key_document.hpp"

#include "messages/signing.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

constexpr std::int64_t now = 1'700'000'000'000;
constexpr std::int64_t day = 86'400'000;

const signing_key& key() {
  static const auto made = [] {
    start_crypto();
    return signing_key::from_seed("1", std::string(32, 's'));
  }();
  return made;
}
std::string document(const std::string& server, std::int64_t valid_until, const std::string& extra = "") {
  return "{\"server_name\":\"" + server + "\",\"valid_until_ts\":" + std::to_string(valid_until) +
         ",\"old_verify_keys\":{\"ed25519:old\":{\"key\":\"AAAA\",\"expired_ts\":1000}},\"verify_keys\":{\"" +
         key().key_id() + "\":{\"key\":\"" + key().public_key() + "\"}}" + extra + "}";
}

} // namespace

TEST_CASE("key document: a good one gives its keys, validity capped at seven days (K7)") {
  const auto read = read_key_document(sign_json(document("r.test", now + 30 * day), "r.test", key()), "r.test", now);
  CHECK(read.problem == "");
  REQUIRE(read.keys.size() == 2);
  CHECK(read.keys[0].key_id == key().key_id());
  CHECK(read.keys[0].valid_until_ms == now + 7 * day);
  CHECK(read.keys[1].expired_ms == 1000);
}

TEST_CASE("key document: what can't be believed gives no key and says why") {
  const auto good = sign_json(document("r.test", now + day), "r.test", key());
  CHECK(read_key_document(good, "other.test", now).problem.find("another server") != std::string::npos);
  CHECK(read_key_document(document("r.test", now + day), "r.test", now).problem.find("isn't signed") !=
        std::string::npos);
  auto forged = good;
  forged.replace(forged.find("AAAA"), 4, "BBBB");
  CHECK(read_key_document(forged, "r.test", now).problem.find("is wrong") != std::string::npos);
  for (const auto* bad : {"", "[]", "{", "null", "{\"server_name\":\"r.test\"}",
                          "{\"server_name\":\"r.test\",\"valid_until_ts\":1,\"verify_keys\":[]}"}) {
    const auto read = read_key_document(bad, "r.test", now);
    CHECK(read.keys.empty());
    CHECK(read.problem != "");
  }
}

TEST_CASE("usable key: requests need a current key, events may be older than an old key's end (K6, K8, A6)") {
  const std::vector<remote_key> known{{"r", "ed25519:a", "KA", now + day, 0}, {"r", "ed25519:b", "KB", 0, now - day}};
  CHECK(usable_key(known, "ed25519:a", now, false) == &known[0]);
  CHECK(usable_key(known, "ed25519:a", now + 2 * day, false) == nullptr);
  CHECK(usable_key(known, "ed25519:a", 0, true) == &known[0]);
  CHECK(usable_key(known, "ed25519:b", now, false) == nullptr);
  CHECK(usable_key(known, "ed25519:b", now - 2 * day, true) == &known[1]);
  CHECK(usable_key(known, "ed25519:b", now, true) == nullptr);
  CHECK(usable_key(known, "ed25519:c", now, false) == nullptr);
}
