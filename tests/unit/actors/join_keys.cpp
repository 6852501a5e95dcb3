#include "actors/join_keys.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ranvier;
using nlohmann::json;

namespace {

constexpr std::int64_t now_ms = 1'700'000'000'000;

std::string document_of(const std::string& server, const signing_key& key) {
  const json bare = {{"server_name", server},
                     {"valid_until_ts", now_ms + 86'400'000},
                     {"verify_keys", {{key.key_id(), {{"key", key.public_key()}}}}},
                     {"old_verify_keys", json::object()}};
  return sign_json(bare.dump(), server, key);
}

const signing_key a = signing_key::from_seed("a", std::string(32, 'a'));
const signing_key b = signing_key::from_seed("b", std::string(32, 'b'));
const keys_wanted missing{{"one", {{"ed25519:a", now_ms}}}, {"two", {{"ed25519:b", 0}, {"ed25519:c", 0}}}};

} // namespace

TEST_CASE("K12: the question, bounded") {
  CHECK(json::parse(notary_query(missing)) ==
        json{{"server_keys",
              {{"one", {{"ed25519:a", {{"minimum_valid_until_ts", now_ms}}}}},
               {"two",
                {{"ed25519:b", {{"minimum_valid_until_ts", 0}}}, {"ed25519:c", {{"minimum_valid_until_ts", 0}}}}}}}});
  CHECK(json::parse(notary_query(missing, 1))["server_keys"].size() == 1);
}

TEST_CASE("K12: what a notary knows, as far as it was asked for and holds together") {
  auto forged = json::parse(document_of("two", b));
  forged["verify_keys"]["ed25519:b"]["key"] = a.public_key();
  const auto answer = [](const std::vector<std::string>& documents) {
    std::string out = "{\"server_keys\":[";
    for (const auto& one : documents)
      out += (out.back() == '[' ? "" : ",") + one;
    return out + "]}";
  };
  const join_keys both{{"one", {{"ed25519:a", a.public_key()}}}, {"two", {{"ed25519:b", b.public_key()}}}};
  CHECK(read_notary_answer(answer({document_of("one", a), document_of("two", b)}), missing, now_ms) == both);
  CHECK(read_notary_answer(answer({document_of("other", a)}), missing, now_ms).empty());
  CHECK(read_notary_answer(answer({forged.dump()}), missing, now_ms).empty());
  CHECK(read_notary_answer("{}", missing, now_ms).empty());
  CHECK(read_notary_answer("<html>", missing, now_ms).empty());
  // What stood before the break is good.
  CHECK(read_notary_answer("{\"server_keys\":[" + document_of("one", a) + ",{]}", missing, now_ms).size() <= 1);
}
