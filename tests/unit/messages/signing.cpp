#include "messages/signing.hpp"

#include "messages/canonical_json.hpp"
#include "spec_key.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {

std::string signature_in(const std::string& object, std::string_view entity, std::string_view key_id) {
  const json_document document(object);
  return std::string(string_member(document.root()["signatures"][entity], key_id).value_or("none"));
}

} // namespace

TEST_CASE("C7: base64, the vectors V7") {
  const std::pair<std::string, std::string> rows[] = {{"", ""},         {"f", "Zg"},        {"fo", "Zm8"},
                                                      {"foo", "Zm9v"},  {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : rows) {
    CAPTURE(plain);
    CHECK(base64(plain) == encoded);
    CHECK(base64_url(plain) == encoded);
    CHECK(unbase64(encoded) == plain);
    CHECK(unbase64(encoded + std::string((4 - encoded.size() % 4) % 4, '=')) == plain);
  }
  CHECK(base64("\xfb\xff\xfe") == "+//+");
  CHECK(base64_url("\xfb\xff\xfe") == "-__-");
  CHECK(unbase64("Zh") == "f"); // bits left over at the end, as the specification's own seed has them
}

TEST_CASE("C7: what isn't base64") {
  for (const std::string text : {"Z", "Zm9vY", "Zg=", "Zg===", "Zm9v=", "Zm9v====", "=", "====", "Z===", "Zm 9v",
                                 "Zm9v\n", "-__-", "Zg==Zg==", "Z\xC3\xA9g"}) {
    CAPTURE(text);
    CHECK_FALSE(unbase64(text));
  }
}

TEST_CASE("SHA-256") {
  CHECK(base64(sha256("")) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU");
  CHECK(base64(sha256("abc")) == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0");
}

TEST_CASE("K2: V8, the signing key") {
  const auto key = spec_key();
  CHECK(key.key_id() == "ed25519:1");
  CHECK(key.public_key() == "XGX0JRS2Af3be3knz2fBiRbApjm2Dh61gXDJA8kcJNI");
  // The file's text ends in the same 32 bytes; the seed's two spare bits are zero when we write it.
  CHECK(key.file_text() == "ed25519 1 YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA0\n");
  CHECK(signing_key::from_file_text(key.file_text()).public_key() == key.public_key());
  CHECK(signing_key::from_seed("1", *unbase64("YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1")).sign("x") ==
        key.sign("x"));
}

TEST_CASE("K2: key files as people leave them, and broken ones") {
  const std::string seed = "YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1";
  for (const auto& text : {"ed25519 a_B9 " + seed, "\n \r\n\ted25519  a_B9\t" + seed + "=\r\n", "ed25519 a_B9 " + seed +
                           "\n\nanything"}) {
    CAPTURE(text);
    CHECK(signing_key::from_file_text(text).key_id() == "ed25519:a_B9");
  }
  for (const auto& text : {std::string(), std::string("\n \n"), "ed25519 " + seed, "rsa 1 " + seed,
                           "ed25519 a-b " + seed, "ed25519 a:b " + seed, "ed25519 1 " + seed + " more",
                           std::string("ed25519 1 AAAA"), "ed25519 1 !" + seed.substr(1), "ed25519:1 " + seed}) {
    CAPTURE(text);
    CHECK_THROWS_AS(signing_key::from_file_text(text), std::runtime_error);
  }
  CHECK_THROWS_AS(signing_key::from_seed("1", "short"), std::runtime_error);
  CHECK_THROWS_AS(signing_key::from_seed("", std::string(32, 'x')), std::runtime_error);
}

TEST_CASE("generated keys differ and survive their file") {
  const auto one = signing_key::generate(), two = signing_key::generate();
  CHECK(one.public_key() != two.public_key());
  CHECK(one.key_id().starts_with("ed25519:a_"));
  CHECK(one.key_id().size() == std::string("ed25519:a_AbCd").size());
  CHECK(signing_key::from_file_text(one.file_text()).sign("bytes") == one.sign("bytes"));
}

TEST_CASE("C5: V9, V10 and V17, signed objects") {
  const auto key = spec_key();
  CHECK(sign_json("{}", "domain", key) ==
        R"({"signatures":{"domain":{"ed25519:1":"K8280/U9SSy9IVtjBuVeLr+HpOB4BQFWbg+UZaADMtTdGYI7Geitb76LTrr5QV/)"
        R"(7Xg4ahLwYGYZzuHGZKM5ZAQ"}}})");
  CHECK(signature_in(sign_json(R"({"two":"Two","one":1})", "domain", key), "domain", "ed25519:1") ==
        "KqmLSbO39/Bzb0QIYE82zqLwsA+PDzYIpIRA2sRQ4sL53+sN6/fpNSoqE7BP7vBZhG6kYdD13EIMJpvhJI+6Bw");
  const auto keys = sign_json(R"({"old_verify_keys":{},"server_name":"domain","valid_until_ts":1652262000000,)"
                              R"("verify_keys":{"ed25519:1":{"key":")" + key.public_key() + R"("}}})", "domain", key);
  CHECK(signature_in(keys, "domain", "ed25519:1") ==
        "FGoX7oBz36Xr5gZoCR7HSq2FtzDErzcUj0qWuPVA6XtQjT7TFP6ASqj4RJawsHF5EaV2tLUd6bBZ+yn4qYEIDw");
}

TEST_CASE("C5: unsigned and the signatures of others stay and aren't signed") {
  const auto key = spec_key();
  const auto bare = sign_json(R"({"a":1,"z":2})", "domain", key);
  const auto full = sign_json(R"({"z":2,"unsigned":{"age":5},"a":1,"signatures":{"other":{"x:1":"s","y":7},)"
                              R"("domain":{"ed25519:0":"t","ed25519:1":"stale"},"none":{}}})", "domain", key);
  const auto ours = signature_in(bare, "domain", "ed25519:1");
  CHECK(full == R"({"a":1,"signatures":{"domain":{"ed25519:0":"t","ed25519:1":")" + ours +
                    R"("},"none":{},"other":{"x:1":"s","y":7}},"unsigned":{"age":5},"z":2})");
}

TEST_CASE("what can't be signed") {
  const auto key = spec_key();
  for (const std::string text : {"[]", "1", R"({"a":1.5})", R"({"signatures":[]})", R"({"signatures":{"x":"y"}})",
                                 R"({"a":1,"a":2})", "{"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sign_json(text, "domain", key), json_problem);
  }
}

TEST_CASE("C6, C8: signatures are verified over exact bytes") {
  const auto key = spec_key();
  const auto good = key.sign("bytes");
  CHECK(good.size() == 86);
  CHECK(verify_signature(key.public_key(), good, "bytes"));
  CHECK(verify_signature(key.public_key() + "=", good + "==", "bytes"));
  CHECK_FALSE(verify_signature(key.public_key(), good, "byteS"));
  CHECK_FALSE(verify_signature(key.public_key(), key.sign("other"), "bytes"));
  CHECK_FALSE(verify_signature(signing_key::from_seed("1", std::string(32, 'x')).public_key(), good, "bytes"));
  CHECK_FALSE(verify_signature(key.public_key(), "", "bytes"));
  CHECK_FALSE(verify_signature("", good, "bytes"));
  CHECK_FALSE(verify_signature(key.public_key(), good.substr(1), "bytes"));
  CHECK_FALSE(verify_signature(key.public_key(), good + "AA", "bytes"));
  CHECK_FALSE(verify_signature("not base64!", good, "bytes"));
  CHECK_FALSE(verify_signature(base64(std::string(32, '\0')), good, "bytes"));
}
