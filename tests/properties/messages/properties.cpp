// Properties that hold for any value. The seed is fixed, so that a failure can be had again; RC_PARAMS gives another
// one (RC_PARAMS="seed=7 max_success=10000").
#include "messages/canonical_json.hpp"
#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "messages/transaction.hpp"
#include "messages/x_matrix.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <string>
#include <vector>

using namespace ranvier;

namespace {

const int seeded = setenv("RC_PARAMS", "seed=20240229", 0); // RapidCheck reads it at its first check

/// Valid UTF-8 with characters from all lengths, controls and quotes among them.
rc::Gen<std::string> some_text() {
  const auto character = rc::gen::elementOf(std::vector<std::string>{
      "a", "b", "Z", "0", "\"", "\\", "/", "\n", "\t", std::string(1, '\0'), "\x1f", "\x7f", "\xc3\xa9", "\xe6\x97\xa5",
      "\xef\xbd\xa1", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", ":", ",", "=", " "});
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(character), [](const auto& parts) {
    std::string out;
    for (const auto& part : parts) out += part;
    return out;
  });
}

/// JSON text with keys that don't repeat, in any order. Use some_json().
rc::Gen<std::string> json_of_depth(int depth) {
  const auto scalar = rc::gen::oneOf(
      rc::gen::map(some_text(), [](const std::string& text) { return json_string(text); }),
      rc::gen::map(rc::gen::resize(100, rc::gen::inRange<std::int64_t>(-9007199254740991, 9007199254740992)),
                   [](std::int64_t number) { return std::to_string(number); }),
      rc::gen::elementOf(std::vector<std::string>{"null", "true", "false", "[]", "{}", "0"}));
  if (depth == 0) return scalar;
  const auto inner = rc::gen::lazy([depth] { return json_of_depth(depth - 1); });
  const auto list = rc::gen::map(rc::gen::container<std::vector<std::string>>(inner), [](const auto& items) {
    std::string out = "[ ";
    for (std::size_t i = 0; i < items.size(); ++i) out += (i == 0 ? "" : " , ") + items[i];
    return out + " ]";
  });
  const auto member = rc::gen::pair(some_text(), inner);
  const auto object = rc::gen::map(
      rc::gen::uniqueBy<std::vector<std::pair<std::string, std::string>>>(member,
                                                                          [](const auto& one) { return one.first; }),
      [](const auto& members) {
        std::string out = "{";
        for (std::size_t i = 0; i < members.size(); ++i)
          out += (i == 0 ? "" : ",\n") + json_string(members[i].first) + ": " + members[i].second;
        return out + "}";
      });
  return rc::gen::oneOf(scalar, list, object);
}

/// At most 8 members or items in each container, and 8 characters in each string.
rc::Gen<std::string> some_json() { return rc::gen::scale(0.08, json_of_depth(3)); }

signing_key some_key() { return signing_key::from_seed("p", std::string(32, 'p')); }

} // namespace

TEST_CASE("canonical JSON of canonical JSON is itself") {
  REQUIRE(seeded == 0);
  CHECK(rc::check([] {
    const auto once = canonical_json(*some_json());
    RC_ASSERT(canonical_json(once) == once);
    RC_ASSERT(canonical_json(once, numbers::lenient) == once);
  }));
}

TEST_CASE("lenient canonical JSON of any double is stable") {
  CHECK(rc::check([](double number) {
    const auto once = canonical_json("[" + std::to_string(number) + "]", numbers::lenient);
    RC_ASSERT(canonical_json(once, numbers::lenient) == once);
  }));
}

TEST_CASE("a string survives JSON") {
  CHECK(rc::check([] {
    const auto text = *some_text();
    const json_document document(json_string(text));
    RC_ASSERT(std::string_view(document.root().get_string()) == text);
  }));
}

TEST_CASE("what sign_json signs verifies, and not with another byte") {
  CHECK(rc::check([] {
    const auto inner = *some_json();
    const auto entity = *some_text();
    const auto text = sign_json("{\"x\":" + inner + ",\"unsigned\":1}", entity, some_key());
    const json_document document(text);
    const auto bytes = canonical_json(document.root(), numbers::strict, {"signatures", "unsigned"});
    const auto signature = string_member(document.root()["signatures"][entity], "ed25519:p");
    RC_ASSERT(signature.has_value());
    RC_ASSERT(verify_signature(some_key().public_key(), *signature, bytes));
    RC_ASSERT(!verify_signature(some_key().public_key(), *signature, bytes + " "));
  }));
}

TEST_CASE("a signed event is found whole by its receiver, in every room version") {
  CHECK(rc::check([] {
    const auto version = *rc::gen::elementOf(known_room_versions());
    const auto type = *rc::gen::elementOf(std::vector<std::string>{"m.room.message", "m.room.member",
                                                                   "m.room.power_levels", "m.room.aliases", "x"});
    const auto rules = *rules_of(version);
    const bool old = rules.number <= 2;
    const auto done = sign_event(R"({"type":")" + type + R"(","room_id":"!r:d","sender":"@a:domain","depth":1,)" +
                                     R"("origin_server_ts":5,"prev_events":[],"auth_events":[],"content":{"body":)" +
                                     *some_json() + "}" + (old ? R"(,"event_id":"$e:domain"})" : "}"),
                                 rules, "domain", some_key());
    const json_document document(done.event);
    const auto shape = look_at_pdu(document.root(), rules);
    RC_ASSERT(shape.problem == "");
    RC_ASSERT(shape.hash_ok);
    RC_ASSERT(shape.event == done.event);
    RC_ASSERT(shape.event_id == done.event_id);
    RC_ASSERT(event_id_of(document.root(), rules) == done.event_id);
    RC_ASSERT(shape.signed_bytes == redacted(document.root(), rules, {"signatures", "unsigned"}));
    RC_ASSERT(verify_signature(some_key().public_key(), shape.signatures.at("domain").at("ed25519:p"),
                               shape.signed_bytes));
    // Redacting twice is redacting once, and changes neither id nor signed bytes.
    const json_document redacted_document(redacted(document.root(), rules));
    RC_ASSERT(redacted(redacted_document.root(), rules) == redacted(document.root(), rules));
    RC_ASSERT(event_id_of(redacted_document.root(), rules) == done.event_id);
  }));
}

TEST_CASE("an X-Matrix header with odd values comes back as it was") {
  CHECK(rc::check([] {
    const auto origin = *rc::gen::elementOf(std::vector<std::string>{"a", "a.b:1", "[::1]:8448", "1.2.3.4", "A-b"});
    const auto destination = *some_text();
    const auto uri = *some_text();
    const auto content = *rc::gen::oneOf(rc::gen::just(std::string()), some_json());
    const auto canonical = content.empty() ? content : canonical_json(content);
    const auto read = parse_x_matrix(x_matrix_header("PUT", uri, origin, destination, canonical, some_key()));
    RC_ASSERT(read.problem == "");
    RC_ASSERT(read.origin == origin);
    RC_ASSERT(read.destination == destination);
    RC_ASSERT(read.key_id == "ed25519:p");
    const auto bytes = x_matrix_bytes("PUT", uri, origin, destination, canonical);
    RC_ASSERT(canonical_json(bytes) == bytes);
    RC_ASSERT(verify_signature(some_key().public_key(), read.signature, bytes));
  }));
}

TEST_CASE("no header and no JSON text makes a reader fail in another way than it says") {
  CHECK(rc::check([](const std::string& noise) {
    const auto read = parse_x_matrix("X-Matrix " + noise);
    RC_ASSERT(read.problem.empty() == !read.origin.empty());
    RC_ASSERT(pdu_errors(noise).empty());
    try {
      canonical_json(noise, numbers::lenient);
    } catch (const json_problem&) {
    }
  }));
}

TEST_CASE("percent-encoding and base64 come back") {
  CHECK(rc::check([](const std::string& bytes) {
    RC_ASSERT(percent_decode(percent_encode(bytes)) == bytes);
    RC_ASSERT(unbase64(base64(bytes)) == bytes);
  }));
}

TEST_CASE("a name matches itself and the stars that cover it") {
  CHECK(rc::check([](std::string text) {
    std::erase(text, '*');
    std::erase(text, '?');
    RC_ASSERT(glob_matches(text, text));
    RC_ASSERT(glob_matches("*", text));
    RC_ASSERT(glob_matches(text + "*", text));
    RC_ASSERT(glob_matches("*" + text, text));
    RC_ASSERT(!glob_matches(text + "?", text));
  }));
}
