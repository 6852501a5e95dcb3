#include "messages/transaction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace ranvier;

TEST_CASE("T1: the body is canonical and leaves out edus if there are none") {
  CHECK(transaction_body("domain", 1'000'000, {}, {}) == R"({"origin":"domain","origin_server_ts":1000000,"pdus":[]})");
  const std::vector<shared_text> two{std::string(R"({"a":1})"), std::string(R"({"b":2})")};
  CHECK(transaction_body("domain:8448", 5, two, {}) ==
        R"({"origin":"domain:8448","origin_server_ts":5,"pdus":[{"a":1},{"b":2}]})");
  CHECK(transaction_body("d", 5, {}, two) ==
        R"({"edus":[{"a":1},{"b":2}],"origin":"d","origin_server_ts":5,"pdus":[]})");
}

TEST_CASE("T4: the id is of destination, time and body, and needs no escaping") {
  const auto id = transaction_id("remote", 5, "{}");
  CHECK(id == transaction_id("remote", 5, "{}"));
  CHECK(id.size() == 43);
  CHECK(std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }));
  CHECK(id != transaction_id("remote2", 5, "{}"));
  CHECK(id != transaction_id("remote", 6, "{}"));
  CHECK(id != transaction_id("remote", 5, "{} "));
  CHECK(transaction_id("a", 11, "x") != transaction_id("a", 1, "1x"));
  CHECK(transaction_uri(id) == "/_matrix/federation/v1/send/" + id);
  CHECK(transaction_uri("a/b") == "/_matrix/federation/v1/send/a%2Fb");
}

TEST_CASE("T5, T6: verdicts on single PDUs") {
  using errors = std::vector<std::pair<std::string, std::string>>;
  CHECK(pdu_errors(R"({"pdus":{"$a":{},"$b":{"error":"no"},"$c":{"error":"never","more":1}}})") ==
        errors{{"$b", "no"}, {"$c", "never"}});
  for (const std::string odd : {"", "{}", "[]", "1", "{\"pdus\":[]}", "{\"pdus\":null}", "{\"pdus\":{\"$a\":1}}",
                                "no JSON", "{\"pdus\":{\"$a\":{\"error\":5}}}",
                                "{\"pdus\":{\"$a\":{\"errcode\":\"M\"}}}"}) {
    CAPTURE(odd);
    CHECK(pdu_errors(odd).empty());
  }
}
