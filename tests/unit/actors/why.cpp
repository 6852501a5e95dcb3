#include "actors/why.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using nlohmann::json;

namespace {

json closed() {
  return {{"destination", "dead.test"},
          {"gate",
           {{"state", "closed"},
            {"lanes", {{"push", "closed"}, {"pull", "closed"}}},
            {"failing_since_ms", 1'000},
            {"next_attempt_ms", 9'000},
            {"interval_ms", 7'000},
            {"last_error", {{"class", "unreachable"}, {"stage", "tls"}, {"message", "certificate expired"}}}}},
          {"pending", {{"pdus", 3}}},
          {"attempts", json::array({{{"outcome", "unreachable"}, {"address", "203.0.113.7:8448"}}})}};
}

} // namespace

TEST_CASE("why a destination lacks something") {
  auto d = closed();
  CHECK(because_of(d, 0) == "unreachable at tls: certificate expired (203.0.113.7:8448)");
  d["gate"]["last_error"]["message"] = "203.0.113.7:8448 refuses";
  CHECK(because_of(d, 0) == "unreachable at tls: 203.0.113.7:8448 refuses");
  d["gate"]["state"] = "held";
  d["hold"] = {{"reason", "they move"}};
  CHECK(because_of(d, 0) == "an operator holds it: they move");
  d["gate"]["state"] = "denied";
  CHECK(because_of(d, 0).find("allow and deny") != std::string::npos);
  d["gate"]["state"] = "open";
  CHECK(because_of(d, 0) == "its actor is being started");
  d["resident"] = true;
  CHECK(because_of(d, 0).starts_with("it waits for its turn"));
  d["catching_up"] = true;
  CHECK(because_of(d, 0).starts_with("it is catching up"));
  d["in_flight"] = {{"transaction_id", "t"}};
  CHECK(because_of(d, 0) == "a transaction is under way");
  d["in_flight"] = nullptr;
  d["pending"] = {{"pdus", 0}};
  CHECK(because_of(d, 0) == "requests other than /send fail; /send works");
  d["gate"]["lanes"]["pull"] = "open";
  CHECK(because_of(d, 0) == "");
}

TEST_CASE("when it is tried again, and by which rule") {
  auto next = next_try_of(closed(), 5'000, 2.0, 86'400'000, {{"[backoff]", "r.toml:41"}});
  CHECK(next["at_ms"] == 9'000);
  CHECK(next["rule"] == "5s x 2^n, at most 1d");
  CHECK(next["configured"] == "r.toml:41");
  CHECK(next_try_of(closed(), 5'000, 2.0, 1, {{"backoff.max", "default"}})["configured"].is_null());
  CHECK(next_try_of(closed(), 5'000, 2.0, 1, {{"backoff.max", "flag"}})["configured"] == "flag");
  auto open = closed();
  open["gate"]["state"] = "open";
  CHECK(next_try_of(open, 5'000, 2.0, 1, {}).is_null());
}

TEST_CASE("in short, and what helps") {
  auto brief = in_short(closed(), 0);
  CHECK(brief["destination"] == "dead.test");
  CHECK(brief["stage"] == "tls");
  CHECK(brief["next_attempt_ms"] == 9'000);
  CHECK(advice_for(closed())[0] == "ranvier probe dead.test");
  auto held = closed();
  held["gate"]["state"] = "held";
  CHECK(advice_for(held)[0] == "ranvier release dead.test");
}
