#include "actors/federation_api.hpp"

#include "tests/unit/actors/ingress_bench.hpp"

using namespace ranvier;
using namespace ranvier::testing;

TEST_CASE("a signed transaction is stored, answered, and evidence of life") {
  ingress_bench f;
  const auto answer = f.federation(f.send_text("a%2Fb", with_message("m1")));
  CHECK(answer.status == 200);
  CHECK(json::parse(answer.body) == json{{"pdus", json::object()}});
  std::lock_guard lock(f.says->mutex);
  REQUIRE(f.says->transactions.size() == 1);
  const auto& got = f.says->transactions[0];
  CHECK(got.origin == origin);
  CHECK(got.txn_id == "a/b");
  CHECK(got.at_ms == now_ms);
  CHECK(got.items.size() == 1);
  CHECK(f.says->heard == std::vector<std::string>{origin});
}

TEST_CASE("who isn't who it says is refused (A1-A8)") {
  ingress_bench f(ingress_bench::with([](config& c) { c.federation.deny = {"bad.*"}; }));
  const auto refused = [&](const std::string& text, int status, const std::string& code) {
    const auto answer = f.federation(text);
    CHECK(answer.status == status);
    CHECK(code_of(answer) == code);
  };
  const std::string uri = "/_matrix/federation/v1/send/1";
  refused(request("PUT", uri, empty_transaction.dump()), 401, "M_UNAUTHORIZED");
  refused(request("PUT", uri, "{}", "Authorization: X-Matrix origin=\"a\"\r\n"), 400, "M_UNAUTHORIZED");
  refused(f.send_text("1", empty_transaction, "localhost:http"), 400, "M_UNAUTHORIZED");
  refused(f.send_text("1", empty_transaction), 200, "");
  refused(f.send_text("0", empty_transaction, origin, {R"(,destination="ours.test")", ""}), 200, ""); // A4
  refused(f.send_text("1", empty_transaction, origin, {R"(destination="ours.test")", R"(destination="else.test")"}),
          401, "M_UNAUTHORIZED");
  refused(f.send_text("1", empty_transaction, "bad.test"), 403, "M_FORBIDDEN");
  refused(f.send_text("1", empty_transaction, us), 403, "M_FORBIDDEN");
  refused(f.send_text("1", empty_transaction, origin, {"ed25519:r", "ed25519:z"}), 401, "M_UNAUTHORIZED");
  refused(f.send_text("1", empty_transaction, origin, {"X-Matrix", "Bearer"}), 400, "M_UNAUTHORIZED");
  auto tampered = f.send_text("1", with_message("m1"));
  tampered.replace(tampered.find("\"m1\""), 4, "\"m2\"");
  refused(tampered, 401, "M_UNAUTHORIZED");
  auto other = empty_transaction;
  other["origin"] = "else.test";
  refused(f.send_text("1", other), 403, "M_FORBIDDEN");
  refused(f.send_text("2", json{{"edus", json::array()}}), 400, "M_BAD_JSON");
  auto broken = f.send_text("3", empty_transaction);
  broken.back() = ' ';
  refused(broken, 400, "M_NOT_JSON");
  std::lock_guard lock(f.says->mutex);
  CHECK(f.says->transactions.size() == 2); // those that were right
}

TEST_CASE("the same transaction several times at once is one piece of work with one answer (I3)") {
  ingress_bench f;
  f.says->hold_transactions = true;
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<raw_client>(f.listeners->federation_port()));
    clients.back()->send(f.send_text("same", with_message("m1")));
  }
  f.says->wait([&] { return f.says->transactions.size() == 1 && f.says->heard.size() == 4; });
  f.says->release();
  for (auto& client : clients)
    CHECK(client->read().status == 200);
  std::lock_guard lock(f.says->mutex);
  CHECK(f.says->transactions.size() == 1);
}

TEST_CASE("one transaction of an origin is in work, five wait, the next gets 429, and other origins go on (B26, T10)") {
  ingress_bench f;
  f.says->hold_transactions = true;
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<raw_client>(f.listeners->federation_port()));
    clients.back()->send(f.send_text("t" + std::to_string(i), empty_transaction));
    f.says->wait([&] { return f.says->heard.size() == std::size_t(i) + 1; });
  }
  // heard_from is sent before a request is queued, by the same handler; a further request comes after it.
  const auto limited = f.federation(f.send_text("t6", empty_transaction));
  CHECK(limited.status == 429);
  CHECK(code_of(limited) == "M_LIMIT_EXCEEDED");
  CHECK(json::parse(limited.body)["retry_after_ms"] == 5000);
  CHECK(limited.head.find("Retry-After: 5\r\n") != std::string::npos);
  {
    std::lock_guard lock(f.says->mutex);
    CHECK(f.says->transactions.size() == 1);
    f.says->hold_transactions = false;
  }
  auto elsewhere = empty_transaction;
  elsewhere["origin"] = "another.test";
  CHECK(f.federation(f.send_text("x", elsewhere, "another.test")).status == 200);
  f.says->release();
  for (auto& client : clients)
    CHECK(client->read().status == 200);
}

TEST_CASE("a full inbox or a failing store is 503: the peer keeps the transaction") {
  ingress_bench f;
  f.says->stored.full = true;
  CHECK(f.federation(f.send_text("1", empty_transaction)).status == 503);
  f.says->stored = {};
  f.says->stored.ok = false;
  f.says->stored.problem = "disk full";
  const auto answer = f.federation(f.send_text("1", empty_transaction));
  CHECK(answer.status == 503);
  CHECK(answer.head.find("Retry-After") != std::string::npos);
  f.says->stored = {};
  CHECK(f.federation(f.send_text("1", empty_transaction)).status == 200);
}

TEST_CASE("keys, version and unknown endpoints need no signature (H4, H11, K1-K5)") {
  ingress_bench f;
  const auto keys = f.federation(request("GET", "/_matrix/key/v2/server"));
  CHECK(keys.status == 200);
  const auto body = json::parse(keys.body);
  CHECK(keys.body == canonical_json(keys.body));
  CHECK(body["old_verify_keys"] == json::object());
  CHECK(body["valid_until_ts"] == now_ms + 24 * 3'600'000);
  auto bare = body;
  bare.erase("signatures");
  CHECK(verify_signature(key_named('o').public_key(), body["signatures"][us]["ed25519:o"].get<std::string>(),
                         canonical_json(bare.dump())));
  CHECK(f.federation(request("GET", "/_matrix/key/v2/server/ed25519:o")).status == 200);
  CHECK(json::parse(f.federation(request("GET", "/_matrix/federation/v1/version")).body)["server"]["version"] ==
        "1.2.3");
  CHECK(code_of(f.federation(request("GET", "/_matrix/federation/v1/nothing"))) == "M_UNRECOGNIZED");
  const auto wrong_method = f.federation(request("POST", "/_matrix/federation/v1/version", "{}"));
  CHECK(wrong_method.status == 405);
  CHECK(code_of(wrong_method) == "M_UNRECOGNIZED");
}

TEST_CASE("published keys: further and old ones stand beside ours (K2, K3)") {
  auto settings = ingress_bench::with([](config& c) {
    c.also_keys = {{"ed25519:two", "AAAA", 0}};
    c.old_keys = {{"ed25519:old", "BBBB", 5}};
  });
  const auto body = json::parse(own_key_document(settings, key_named('o'), now_ms));
  CHECK(body["verify_keys"].size() == 2);
  CHECK(body["verify_keys"]["ed25519:two"] == json{{"key", "AAAA"}});
  CHECK(body["old_verify_keys"] == json{{"ed25519:old", {{"key", "BBBB"}, {"expired_ts", 5}}}});
}
