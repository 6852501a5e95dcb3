// The ingress over real HTTP, with actors behind it that answer as each test says.
#include "actors/ingress.hpp"

#include "actors/federation_api.hpp"
#include "tests/unit/actors/net/raw_client.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>

using namespace ranvier;
using namespace ranvier::testing;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::int64_t now_ms = 1'700'000'000'000;
const std::string us = "ours.test", origin = "remote.test";

const signing_key& key_named(char letter) {
  start_crypto();
  static std::map<char, signing_key> keys;
  return keys.try_emplace(letter, signing_key::from_seed(std::string(1, letter), std::string(32, letter)))
      .first->second;
}

/// What the actors behind the ingress say, and what they heard. The mutex guards all of it.
struct script {
  std::mutex mutex;
  std::condition_variable changed;
  feed_outcome fed;       ///< `accepted` and `head` are filled per batch
  inbound_outcome stored; ///< `answer` is that of the transaction if empty
  stream_page page;
  bool hold_transactions = false; ///< their answers wait for release()
  pulled answer;

  std::size_t reads = 0;
  std::vector<std::size_t> batches;
  std::vector<inbound_transaction> transactions;
  std::vector<position> acknowledged;
  std::vector<std::string> heard, pulls;
  std::vector<std::pair<caf::typed_response_promise<local<inbound_outcome>>, inbound_outcome>> held;

  template <class Check> void wait(Check check) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, 10s, check));
  }
  void release() {
    std::lock_guard lock(mutex);
    hold_transactions = false;
    for (auto& [promise, outcome] : held)
      promise.deliver(make_local(outcome));
    held.clear();
  }
};
using script_ptr = std::shared_ptr<script>;

// Untyped, with only what the ingress asks for; anything else is answered with an error and fails the test.

caf::behavior ledger(caf::event_based_actor* self, const script_ptr& s) {
  return {[s](const local<feed_batch>& batch) {
            std::lock_guard lock(s->mutex);
            s->batches.push_back(batch->lines.size());
            auto out = s->fed;
            out.accepted = batch->lines.size();
            out.head = position(s->batches.size());
            return make_local(out);
          },
          [self, s](const local<inbound_transaction>& transaction) {
            auto promise = self->make_response_promise<local<inbound_outcome>>();
            std::lock_guard lock(s->mutex);
            s->transactions.push_back(*transaction);
            auto out = s->stored;
            if (out.answer.empty()) out.answer = transaction->answer;
            if (s->hold_transactions) s->held.emplace_back(promise, out);
            else promise.deliver(make_local(out));
            s->changed.notify_all();
            return promise;
          },
          [s](const local<acknowledge_stream>& ack) {
            std::lock_guard lock(s->mutex);
            s->acknowledged.push_back(ack->upto);
            return done{};
          }};
}

caf::behavior reader(caf::event_based_actor*, const script_ptr& s) {
  return {[s](const local<read_stream>& asked) {
            std::lock_guard lock(s->mutex);
            auto out = s->page;
            std::erase_if(out.items, [&](const auto& item) { return asked->has_after && item.first <= asked->after; });
            if (out.items.size() > asked->limit) out.items.resize(asked->limit);
            ++s->reads;
            s->changed.notify_all();
            return make_local(out);
          },
          [](const local<find_room>& asked) {
            found_room out;
            out.known = asked->room_id == "!r:a/b";
            out.version = "10";
            out.members = {{"@u:remote.test", "join"}};
            out.servers = {"remote.test"};
            return make_local(out);
          },
          [](const local<find_source>& asked) {
            return make_local(found_source{asked->source == "known", 7});
          }};
}

caf::behavior supervisor(caf::event_based_actor*, const script_ptr& s) {
  return {[s](const pull& order) {
            std::lock_guard lock(s->mutex);
            s->pulls.push_back(order.method + " " + order.destination + order.uri + " " + order.body.str());
            return s->answer;
          },
          [s](const heard_from& from) {
            std::lock_guard lock(s->mutex);
            s->heard.push_back(from.server);
            s->changed.notify_all();
          }};
}

/// Knows one key of each server: the one named by the first letter of the server's name.
caf::behavior keyring(caf::event_based_actor*) {
  return {[](const get_key& asked) {
    const auto& key = key_named(asked.server.front());
    return asked.key_id == key.key_id() ? got_key{key.public_key(), ""} : got_key{"", "it has no such key"};
  }};
}

caf::actor_system_config& quiet() {
  static caf::actor_system_config settings;
  settings.set("scheduler.policy", caf::atom("sharing"));
  settings.set("scheduler.max-threads", std::size_t(2));
  settings.set("logger.file-verbosity", caf::atom("quiet"));
  return settings;
}

struct fixture {
  explicit fixture(const config& settings = with([](config&) {})) {
    auto all = std::make_shared<config>(settings);
    ledger_ = caf::actor_cast<ledger_actor>(system.spawn(ledger, says));
    reader_ = caf::actor_cast<reader_actor>(system.spawn(reader, says));
    supervisor_ = caf::actor_cast<supervisor_actor>(system.spawn(supervisor, says));
    keyring_ = caf::actor_cast<keyring_actor>(system.spawn(keyring));
    ingress_parts parts{supervisor_,
                        ledger_,
                        [this] { return reader_; },
                        keyring_,
                        all,
                        std::make_shared<signing_key>(key_named('o')),
                        [] { return now_ms; },
                        [] { return std::string("ranvier_up 1\n"); },
                        ready,
                        "secret",
                        "1.2.3"};
    actor = spawn_ingress(system, parts);
    listeners.emplace(parts, actor);
  }
  ~fixture() {
    says->release();
    listeners.reset();
    for (const auto& one : {caf::actor_cast<caf::actor>(actor), caf::actor_cast<caf::actor>(ledger_),
                            caf::actor_cast<caf::actor>(reader_), caf::actor_cast<caf::actor>(supervisor_),
                            caf::actor_cast<caf::actor>(keyring_)})
      caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }
  template <class Change> static config with(Change change) {
    config out;
    out.server_name = us;
    out.federation.listen = out.host.listen = "127.0.0.1:0";
    change(out);
    return out;
  }

  raw_answer host(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& headers = "Authorization: Bearer secret\r\n") {
    raw_client client(listeners->host_port());
    return client.ask(request(method, path, body, headers));
  }
  static std::string send_text(const std::string& txn, const json& body, const std::string& from = origin,
                               const std::pair<std::string, std::string>& change = {}) {
    const auto uri = "/_matrix/federation/v1/send/" + txn;
    auto header = x_matrix_header("PUT", uri, from, us, canonical_json(body.dump()), key_named(from.front()));
    if (const auto found = header.find(change.first); !change.first.empty() && found != std::string::npos)
      header.replace(found, change.first.size(), change.second);
    return request("PUT", uri, body.dump(), "Authorization: " + header + "\r\n");
  }
  raw_answer federation(const std::string& text) {
    raw_client client(listeners->federation_port());
    return client.ask(text);
  }

  script_ptr says = std::make_shared<script>();
  std::shared_ptr<readiness> ready = std::make_shared<readiness>();
  caf::actor_system system{quiet()};
  ledger_actor ledger_;
  reader_actor reader_;
  supervisor_actor supervisor_;
  keyring_actor keyring_;
  ingress_actor actor;
  std::optional<ingress_listeners> listeners;
};

const json empty_transaction = {{"origin", origin}, {"origin_server_ts", 1}, {"pdus", json::array()}};
json with_message(const std::string& id) {
  auto out = empty_transaction;
  out["edus"] = {{{"edu_type", "m.direct_to_device"},
                  {"content",
                   {{"sender", "@bob:remote.test"},
                    {"type", "t"},
                    {"message_id", id},
                    {"messages", {{"@a:ours.test", {{"*", json::object()}}}}}}}}};
  return out;
}
std::string code_of(const raw_answer& answer) { return json::parse(answer.body).value("errcode", ""); }

} // namespace

TEST_CASE("a signed transaction is stored, answered, and evidence of life") {
  fixture f;
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
  fixture f(fixture::with([](config& c) { c.federation.deny = {"bad.*"}; }));
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
  fixture f;
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
  fixture f;
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
  fixture f;
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
  fixture f;
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
  auto settings = fixture::with([](config& c) {
    c.also_keys = {{"ed25519:two", "AAAA", 0}};
    c.old_keys = {{"ed25519:old", "BBBB", 5}};
  });
  const auto body = json::parse(own_key_document(settings, key_named('o'), now_ms));
  CHECK(body["verify_keys"].size() == 2);
  CHECK(body["verify_keys"]["ed25519:two"] == json{{"key", "AAAA"}});
  CHECK(body["old_verify_keys"] == json{{"ed25519:old", {{"key", "BBBB"}, {"expired_ts", 5}}}});
}

TEST_CASE("allow and deny lists") {
  federation_config lists;
  CHECK(server_is_allowed(lists, "a.test"));
  lists.deny = {"*.bad.test", "evil"};
  CHECK_FALSE(server_is_allowed(lists, "x.bad.test"));
  CHECK_FALSE(server_is_allowed(lists, "evil"));
  CHECK(server_is_allowed(lists, "a.test"));
  lists.allow = {"*.good.test", "evil"};
  CHECK(server_is_allowed(lists, "a.good.test"));
  CHECK_FALSE(server_is_allowed(lists, "a.test"));
  CHECK_FALSE(server_is_allowed(lists, "evil"));
}

TEST_CASE("the host needs its token, but not for health") {
  fixture f;
  for (const auto* headers : {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic secret\r\n"}) {
    const auto answer = f.host("GET", "/_ranvier/v1/stream?timeout_ms=0", "", headers);
    CHECK(answer.status == 401);
    CHECK(code_of(answer) ==
          (std::string(headers).find("wrong") == std::string::npos ? "M_MISSING_TOKEN" : "M_UNKNOWN_TOKEN"));
  }
  CHECK(f.host("GET", "/healthz", "", "").status == 200);
  CHECK(f.host("GET", "/metrics", "", "").body == "ranvier_up 1\n");
  CHECK(f.host("GET", "/readyz", "", "").status == 503);
  f.ready->set(true);
  CHECK(f.host("GET", "/readyz", "", "").status == 200);
  CHECK(f.host("GET", "/_ranvier/v1/nothing").status == 404);
}

TEST_CASE("a feed goes to the ledger in batches and is answered as a whole") {
  fixture f;
  std::string body;
  for (int i = 0; i < 1200; ++i)
    body += R"({"kind":"membership","room_id":"!r:a","user_id":"@u:a","membership":"join"})"
            "\n";
  const auto answer = f.host("POST", "/_ranvier/v1/feed", body);
  CHECK(answer.status == 200);
  CHECK(json::parse(answer.body)["accepted"] == 1200);
  std::size_t lines = 0;
  for (const auto n : f.says->batches) {
    lines += n;
    CHECK(n < 800); // 500, and what the last piece brought
  }
  CHECK(lines == 1200);
  CHECK(f.says->batches.size() >= 2);
  CHECK(json::parse(answer.body)["position"] == f.says->batches.size());
  const auto nothing = f.host("POST", "/_ranvier/v1/feed", "\n");
  CHECK(json::parse(nothing.body)["accepted"] == 0);
  CHECK(json::parse(nothing.body)["position"] == f.says->batches.size());
}

TEST_CASE("a feed that can't be stored is 503, also in the middle of a long body") {
  fixture f;
  f.says->fed.ok = false;
  f.says->fed.problem = "disk full";
  std::string body;
  for (int i = 0; i < 20'000; ++i)
    body += R"({"kind":"membership","room_id":"!r:a","user_id":"@u:a","membership":"join"})"
            "\n";
  for (const auto& text : {body, std::string("{}\n")}) {
    const auto answer = f.host("POST", "/_ranvier/v1/feed", text);
    CHECK(answer.status == 503);
    CHECK(answer.head.find("Retry-After: 5") != std::string::npos);
    CHECK(answer.body.find("disk full") != std::string::npos);
  }
}

TEST_CASE("the stream: pages, bounds, consumers and bad parameters") {
  fixture f;
  f.says->page = {
      "inst", {{5, {"pdu", R"({"origin":"x"})"}}, {6, {"edu", "{}"}}, {8, {"pdu", R"({"a":1})"}}}, 5, 8, 100};
  const auto at = [&](const std::string& query) { return f.host("GET", "/_ranvier/v1/stream?timeout_ms=0" + query); };
  const auto all = json::parse(at("").body);
  CHECK(all["instance"] == "inst");
  CHECK(all["next"] == 8);
  CHECK(all["items"].size() == 3);
  CHECK(all["items"][0] == json{{"position", 5}, {"kind", "pdu"}, {"origin", "x"}});
  CHECK(all["items"][1] == json{{"position", 6}, {"kind", "edu"}});
  CHECK(f.says->acknowledged.empty());
  CHECK(json::parse(at("&limit=2").body)["next"] == 6);
  CHECK(json::parse(at("&after=6").body)["items"].size() == 1);
  CHECK(json::parse(at("&after=100").body)["next"] == 100);
  CHECK(f.says->acknowledged == std::vector<position>{6, 100});
  for (const auto* after : {"3", "101"}) {
    const auto wrong = at("&after=" + std::string(after));
    CHECK(wrong.status == 409);
    const auto body = json::parse(wrong.body);
    CHECK(body["errcode"] == "M_RANVIER_POSITION");
    CHECK(body["first_valid"] == 4);
    CHECK(body["last_valid"] == 100);
  }
  for (const auto* bad : {"&after=-1", "&after=x", "&limit=0", "&limit=x", "&consumer=else", "&timeout_ms=0"})
    CHECK(at(bad).status == (std::string(bad) == "&timeout_ms=0" ? 200 : 400));
  f.says->page = {"inst", {}, 9, 8, 100};
  CHECK(json::parse(at("").body)["next"] == 8);
}

TEST_CASE("a long poll is answered when something comes, or at its time") {
  fixture f;
  f.says->page = {"inst", {}, 1, 0, 10};
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/stream?after=0&timeout_ms=30").body)["items"].empty());
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream?after=0&timeout_ms=60000", "", "Authorization: Bearer secret\r\n"));
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page = {"inst", {{1, {"to_device", "{}"}}}, 1, 1, 10};
  }
  // Whether it waits already or not: it must not sleep over this.
  CHECK(f.federation(f.send_text("1", with_message("m1"))).status == 200);
  CHECK(json::parse(client.read().body)["items"].size() == 1);
}

TEST_CASE("the stream as server-sent events, from Last-Event-ID") {
  fixture f;
  f.says->page = {"inst", {{1, {"pdu", "{}"}}, {2, {"edu", R"({"x":1})"}}}, 1, 2, 10};
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream", "",
                      "Authorization: Bearer secret\r\nAccept: text/event-stream\r\nLast-Event-ID: 1\r\n"));
  const auto head = client.until("\r\n\r\n");
  CHECK(head.find("200 OK") != std::string::npos);
  CHECK(head.find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(client.until("\n\n").find("id: 2\nevent: edu\ndata: {\"position\":2,\"kind\":\"edu\",\"x\":1}\n\n") !=
        std::string::npos);
  CHECK(f.says->acknowledged == std::vector<position>{1});
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page.items.push_back({3, {"pdu", "{}"}});
    f.says->page.head = 3;
  }
  caf::anon_send(f.actor, stream_advanced{});
  CHECK(client.until("\n\n").find("id: 3\n") != std::string::npos);
  CHECK(f.says->acknowledged == std::vector<position>{1}); // what was only sent isn't acknowledged
}

TEST_CASE("waiting calls are bounded, and one that ended makes room") {
  fixture f(fixture::with([](config& c) { c.limits.waiting_calls = 1; }));
  f.says->page = {"inst", {}, 1, 0, 10};
  raw_client client(f.listeners->host_port());
  client.send(request("GET", "/_ranvier/v1/stream?after=0&timeout_ms=60000", "", "Authorization: Bearer secret\r\n"));
  f.says->wait([&] { return f.says->reads > 0; });
  const auto refused = f.host("GET", "/_ranvier/v1/stream?timeout_ms=0");
  CHECK(refused.status == 503);
  CHECK(refused.head.find("Retry-After") != std::string::npos);
  {
    std::lock_guard lock(f.says->mutex);
    f.says->page = {"inst", {{1, {"pdu", "{}"}}}, 1, 1, 10};
  }
  caf::anon_send(f.actor, stream_advanced{});
  CHECK(client.read().status == 200);
  CHECK(f.host("GET", "/_ranvier/v1/stream?timeout_ms=0").status == 200);
}

TEST_CASE("the host's small calls") {
  fixture f;
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/feed/position?source=known").body) ==
        json{{"source", "known"}, {"seq", 7}});
  CHECK(json::parse(f.host("GET", "/_ranvier/v1/feed/position?source=x").body)["seq"].is_null());
  CHECK(f.host("GET", "/_ranvier/v1/feed/position").status == 400);
  const auto room = json::parse(f.host("GET", "/_ranvier/v1/rooms/%21r%3Aa%2Fb").body);
  CHECK(room["room_id"] == "!r:a/b");
  CHECK(room["partial"] == false);
  CHECK(room["members"] == json{{"@u:remote.test", "join"}});
  CHECK(room["servers"] == json{"remote.test"});
  CHECK(f.host("GET", "/_ranvier/v1/rooms/%21unknown").status == 404);

  f.says->answer = {418, shared_text(std::string(R"({"a":1})")), "", 12};
  const json order = {{"destination", "remote.test"}, {"method", "PUT"}, {"uri", "/_matrix/x?y=1"}};
  CHECK(json::parse(f.host("POST", "/_ranvier/v1/requests", order.dump()).body) ==
        json{{"status", 418}, {"content", {{"a", 1}}}, {"took_ms", 12}});
  CHECK(f.says->pulls == std::vector<std::string>{"PUT remote.test/_matrix/x?y=1 {}"});
  f.says->answer = {0, {}, "the gate is closed", 0};
  const auto closed = f.host("POST", "/_ranvier/v1/requests", order.dump());
  CHECK(closed.status == 502);
  CHECK(closed.body.find("the gate is closed") != std::string::npos);
  for (const auto& [member, value] : std::vector<std::pair<std::string, json>>{{"destination", "no server"},
                                                                               {"method", "BREW"},
                                                                               {"uri", "/elsewhere"},
                                                                               {"uri", "/_matrix/ x"},
                                                                               {"content", 7},
                                                                               {"timeout_ms", 0}}) {
    auto bad = order;
    bad[member] = value;
    CHECK(f.host("POST", "/_ranvier/v1/requests", bad.dump()).status == 400);
  }
}

TEST_CASE("events/sign signs what can be sent and refuses what can't") {
  fixture f;
  const json event = {{"room_id", "!r:x"},
                      {"sender", "@a:ours.test"},
                      {"type", "m.x"},
                      {"content", json::object()},
                      {"origin_server_ts", 1},
                      {"depth", 1},
                      {"prev_events", json::array()},
                      {"auth_events", json::array()}};
  const auto sign = [&](const json& body) { return f.host("POST", "/_ranvier/v1/events/sign", body.dump()); };
  const auto done = json::parse(sign({{"room_version", "10"}, {"event", event}}).body);
  const json_document document(done["event"].dump());
  const auto shape = look_at_pdu(document.root(), rules_of("10"));
  CHECK(shape.ok);
  CHECK(shape.hash_ok);
  CHECK(shape.event_id == done["event_id"]);
  CHECK(verify_signature(key_named('o').public_key(), shape.signatures.at(us).at("ed25519:o"), shape.signed_bytes));
  CHECK(code_of(sign({{"room_version", "99"}, {"event", event}})) == "M_UNSUPPORTED_ROOM_VERSION");
  CHECK(sign({{"event", event}}).status == 400);
  auto bad = event;
  bad["content"]["n"] = 1.5;
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 400);
  bad = event;
  bad.erase("content");
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 400);
  bad = event;
  bad["content"]["x"] = std::string(70'000, 'x');
  CHECK(sign({{"room_version", "10"}, {"event", bad}}).status == 413);
}

TEST_CASE("the ingress tells what it does") {
  fixture f;
  CHECK(f.federation(f.send_text("1", with_message("m1"))).status == 200);
  caf::scoped_actor self{f.system};
  json seen;
  self->request(f.actor, 5s, describe{})
      .receive([&](const description& d) { seen = json::parse(d.json); }, [](const caf::error&) { FAIL("no answer"); });
  CHECK(seen["kind"] == "ingress");
  CHECK(seen["inbound"]["transactions"] == 1);
  CHECK(seen["inbound"]["edus"] == 1);
  CHECK(seen["transactions_in_work"] == 0);
}
