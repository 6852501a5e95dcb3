#include "actors/net/http_client.hpp"

#include "tests/unit/actors/net/http_client_peer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>

using namespace ranvier;
using test::refusing_port;
using test::silent_port;
using test::tls_peer;

namespace {

struct bench {
  tls_peer peer;
  http_client_settings settings;
  std::unique_ptr<http_client> client;

  explicit bench(tls_peer::script s, std::vector<std::string> names = {"IP:127.0.0.1", "DNS:peer.test"})
      : peer(std::move(names), std::move(s)) {
    settings.ca_file = peer.authority_file();
  }
  http_client& http() {
    if (!client) client = std::make_unique<http_client>(settings);
    return *client;
  }
  http_job job(const std::string& method = "GET", const std::string& body = "") {
    http_job j;
    j.asker = "peer.test";
    j.call.id = 7;
    j.call.destination = "peer.test";
    j.call.method = method;
    j.call.uri = "/_matrix/key/v2/server";
    j.call.body = shared_text(body);
    j.call.timeout_ms = 10'000;
    j.way.ok = j.way.pinned = true;
    j.way.addresses = {peer.at()};
    j.way.host_header = "peer.test:8448";
    j.way.tls_name = "peer.test";
    return j;
  }
  std::future<http_reply> send(http_job j) {
    auto p = std::make_shared<std::promise<http_reply>>();
    auto f = p->get_future();
    j.answer = [p](http_reply r) { p->set_value(std::move(r)); };
    http().submit(std::move(j));
    return f;
  }
};

http_reply get(std::future<http_reply> f) {
  REQUIRE(f.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  return f.get();
}

std::string ok(const tls_peer::request&) { return tls_peer::answer(200, "{}"); }
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("http_client: a request goes out as it was signed, and its answer comes back") {
  bench b([](const auto&) { return tls_peer::answer(429, "{\"a\":1}", "Retry-After: 17\r\nLocation: /x\r\n"); });
  auto j = b.job("PUT", "{\"x\":1}");
  j.call.uri = "/_matrix/a/../%2F/send?v=%24a&x=b%20c";
  j.call.authorization = "X-Matrix origin=\"o\"";
  auto r = get(b.send(j));
  CHECK(r.answer.id == 7);
  CHECK(r.answer.status == 429);
  CHECK(r.answer.body.str() == "{\"a\":1}");
  CHECK(r.answer.content_type == "application/json");
  CHECK(r.answer.retry_after == "17");
  CHECK(r.location == "/x");
  CHECK(r.answer.peer_address == b.peer.at());
  CHECK(r.answer.request_sent);
  CHECK(r.answer.problem.empty());
  auto seen = b.peer.requests().at(0);
  CHECK(seen.method == "PUT");
  CHECK(seen.target == "/_matrix/a/../%2F/send?v=%24a&x=b%20c");
  CHECK(seen.body == "{\"x\":1}");
  CHECK(seen.sni == "peer.test");
  CHECK(seen.headers["host"] == "peer.test:8448");
  CHECK(seen.headers["authorization"] == "X-Matrix origin=\"o\"");
  CHECK(seen.headers["content-type"] == "application/json");
  CHECK(seen.headers.count("expect") == 0);
}

TEST_CASE("http_client: a GET has no body and no Content-Type; an IP literal gets no SNI (H8)") {
  bench b(ok);
  auto j = b.job();
  j.way.tls_name = "127.0.0.1";
  j.way.host_header = "127.0.0.1";
  CHECK(get(b.send(j)).answer.status == 200);
  auto seen = b.peer.requests().at(0);
  CHECK(seen.method == "GET");
  CHECK(seen.sni == "");
  CHECK(seen.headers.count("content-type") == 0);
  CHECK(seen.headers.count("content-length") == 0);
}

TEST_CASE("http_client: redirects are not followed") {
  bench b([](const auto&) { return tls_peer::answer(302, "", "Location: /elsewhere\r\n"); });
  CHECK(get(b.send(b.job())).answer.status == 302);
  CHECK(b.peer.requests().size() == 1);
}

TEST_CASE("http_client: connections are kept and used again, but not for what mustn't be repeated") {
  bench b(ok);
  CHECK(get(b.send(b.job())).answer.status == 200);
  CHECK(get(b.send(b.job())).answer.status == 200);
  CHECK(b.peer.connections() == 1);
  auto once = b.job("POST", "{}");
  once.call.repeatable = false;
  CHECK(get(b.send(once)).answer.status == 200);
  CHECK(b.peer.connections() == 2);
}

TEST_CASE("http_client: a pooled connection that the peer closed while idle is no failure") {
  bench b(ok);
  b.peer.close_after_answer = true;
  for (int i = 1; i <= 3; ++i) {
    CHECK(get(b.send(b.job("PUT", std::string(500'000, 'x')))).answer.status == 200);
    REQUIRE(b.peer.wait_closed(i));
  }
  CHECK(b.peer.connections() == 3);
}

TEST_CASE("http_client: a pooled connection that breaks when it is used again is no failure") {
  bench b([](const tls_peer::request& r) { return r.nth == 1 ? tls_peer::answer(200, "{}") : std::string(); });
  for (auto size : {10u, 3'000'000u}) {
    CHECK(get(b.send(b.job("PUT", std::string(size, 'x')))).answer.status == 200);
    CHECK(get(b.send(b.job("PUT", std::string(size, 'x')))).answer.status == 200);
  }
  CHECK(b.peer.requests().back().body.size() == 3'000'000);
}

TEST_CASE("http_client: a new connection that breaks is a failure at stage answer, and isn't repeated") {
  bench b([](const auto&) { return std::string(); });
  auto r = get(b.send(b.job("PUT", "{}")));
  CHECK(r.answer.status == 0);
  CHECK(r.answer.stage == failure_stage::answer);
  CHECK(r.answer.request_sent);
  CHECK(holds(r.answer.problem, "broke before the whole answer came"));
  CHECK(b.peer.requests().size() == 1);
}

TEST_CASE("http_client: an answer that is too large is a failure, with or without a Content-Length") {
  for (bool chunked : {false, true}) {
    bench b([chunked](const auto&) {
      if (!chunked) return tls_peer::answer(200, std::string(2000, ' '));
      return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, ' ') + "\r\n0\r\n\r\n";
    });
    auto j = b.job();
    j.call.max_answer_bytes = 1000;
    auto r = get(b.send(j));
    CHECK(r.answer.status == 0);
    CHECK(r.answer.stage == failure_stage::answer);
    CHECK(r.answer.problem == "the answer is larger than 1000 bytes");
    j.call.max_answer_bytes = 2000;
    CHECK(get(b.send(j)).answer.body.size() == 2000);
  }
}

TEST_CASE("http_client: endless headers are refused") {
  bench b([](const auto&) {
    std::string lines;
    for (int i = 0; i < 2000; ++i)
      lines += "X-Filler: " + std::string(50, 'x') + "\r\n";
    return tls_peer::answer(200, "{}", lines);
  });
  auto r = get(b.send(b.job()));
  CHECK(r.answer.status == 0);
  CHECK(holds(r.answer.problem, "headers are larger"));
}

TEST_CASE("http_client: a body that ends early is a failure") {
  bench b(
      [](const auto&) { return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{}"); });
  b.peer.close_after_answer = true;
  auto r = get(b.send(b.job()));
  CHECK(r.answer.status == 0);
  CHECK(r.answer.stage == failure_stage::answer);
}

TEST_CASE("http_client: stages of failures to connect") {
  bench b(ok);
  auto j = b.job();
  SUBCASE("refused") {
    j.way.addresses = {"127.0.0.1:" + std::to_string(refusing_port())};
    auto r = get(b.send(j)).answer;
    CHECK(r.stage == failure_stage::connect);
    CHECK_FALSE(r.request_sent);
    CHECK(r.problem == "connecting to " + j.way.addresses[0] + " failed: Connection refused");
    CHECK(r.peer_address == j.way.addresses[0]);
  }
  SUBCASE("a port that says nothing") {
    silent_port silent;
    b.settings.connect_timeout_ms = 300;
    j.way.addresses = {"127.0.0.1:" + std::to_string(silent.port())};
    auto r = get(b.send(j)).answer;
    CHECK(r.stage == failure_stage::tls);
    CHECK_FALSE(r.request_sent);
    CHECK(holds(r.problem, "no TLS handshake with " + j.way.addresses[0]));
  }
  SUBCASE("a certificate for another name") {
    j.way.tls_name = "other.test";
    auto r = get(b.send(j)).answer;
    CHECK(r.stage == failure_stage::tls);
    CHECK_FALSE(r.request_sent);
    CHECK_MESSAGE(holds(r.problem, "other.test"), r.problem);
  }
  SUBCASE("a certificate for another IP") {
    j.way.tls_name = "127.0.0.2";
    CHECK(get(b.send(j)).answer.stage == failure_stage::tls);
  }
  SUBCASE("an authority that nobody knows") {
    b.settings.ca_file.clear();
    auto r = get(b.send(j)).answer;
    CHECK(r.stage == failure_stage::tls);
    CHECK(holds(r.problem, "isn't accepted"));
    CHECK(b.peer.requests().empty());
  }
  SUBCASE("any certificate will do if verifying is off") {
    b.settings.ca_file.clear();
    b.settings.verify_certificates = false;
    j.way.tls_name = "other.test";
    CHECK(get(b.send(j)).answer.status == 200);
    CHECK(b.peer.requests().at(0).sni == "other.test");
  }
  SUBCASE("ip_deny is judged once more when connected") {
    b.settings.ip_deny = {"127.0.0.0/8"};
    CHECK(get(b.send(j)).answer.status == 200); // pinned: an operator's own route
    j.way.pinned = false;
    auto r = get(b.send(j)).answer;
    CHECK(r.status == 0);
    CHECK(r.stage == failure_stage::connect);
    CHECK_FALSE(r.request_sent);
    CHECK(r.problem == b.peer.at() + " stands in [federation] ip_deny");
    CHECK(b.peer.requests().size() == 1);
  }
  SUBCASE("the next address is tried") {
    j.way.addresses = {"127.0.0.1:" + std::to_string(refusing_port()), b.peer.at()};
    auto r = get(b.send(j)).answer;
    CHECK(r.status == 200);
    CHECK(r.peer_address == b.peer.at());
  }
}

TEST_CASE("http_client: a request that isn't answered in time fails at stage answer") {
  tls_peer* peer = nullptr;
  bench b([&](const tls_peer::request& r) {
    if (r.nth > 1) peer->hang();
    return tls_peer::answer(200, "{}");
  });
  peer = &b.peer;
  REQUIRE(get(b.send(b.job())).answer.status == 200); // so that the handshake isn't in the time that is measured
  auto j = b.job("PUT", "{}");
  j.call.timeout_ms = 1'000;
  auto r = get(b.send(j)).answer;
  CHECK(r.status == 0);
  CHECK(r.stage == failure_stage::answer);
  CHECK(r.request_sent);
  CHECK(r.took_ms >= 1'000);
  CHECK(r.problem == "no answer from " + b.peer.at() + " after 1 s (PUT /_matrix/key/v2/server)");
}

TEST_CASE("http_client: what can't be sent is answered at stage build") {
  bench b(ok);
  auto bad = [&](auto change) {
    auto j = b.job();
    change(j);
    auto r = get(b.send(j)).answer;
    CHECK(r.stage == failure_stage::build);
    CHECK_FALSE(r.problem.empty());
    CHECK(r.id == 7);
  };
  bad([](http_job& j) { j.call.uri = "/a b"; });
  bad([](http_job& j) { j.call.uri = "no-slash"; });
  bad([](http_job& j) { j.call.method = "GET /x"; });
  bad([](http_job& j) { j.call.authorization = "a\r\nX: y"; });
  bad([](http_job& j) { j.way.addresses.clear(); });
  CHECK(b.peer.connections() == 0);
}

TEST_CASE("http_client: cancel ends what is running and what waits, then says so; others go on") {
  tls_peer* peer = nullptr;
  bench b([&](const tls_peer::request& r) {
    if (r.target == "/hang") peer->hang();
    return tls_peer::answer(200, "{}");
  });
  peer = &b.peer;
  b.settings.max_in_flight = 1;
  auto running = b.job("PUT", "{}"), queued = b.job("PUT", "{}"), other = b.job();
  running.call.uri = "/hang";
  running.call.repeatable = false; // so that it keeps the only slot
  other.asker = "other";
  auto first = b.send(running), second = b.send(queued), third = b.send(other);
  REQUIRE(b.peer.wait_requests(1));
  std::promise<void> over;
  b.http().cancel("peer.test", [&] { over.set_value(); });
  over.get_future().get();
  // Both were answered before `then` was called.
  REQUIRE(first.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  REQUIRE(second.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  auto a = first.get().answer, c = second.get().answer;
  CHECK(a.cancelled);
  CHECK(a.request_sent);
  CHECK(c.cancelled);
  CHECK_FALSE(c.request_sent);
  CHECK(get(std::move(third)).answer.status == 200);
}

TEST_CASE("http_client: one that was cut after it was sent stays sent, if it then waits for a dial in vain (T3)") {
  tls_peer* peer = nullptr;
  bench b([&](const tls_peer::request&) {
    peer->hang();
    return std::string();
  });
  peer = &b.peer;
  b.settings.max_in_flight = 2;
  silent_port silent;
  auto filler = b.job(), sent = b.job("PUT", "{}"), dialler = b.job();
  filler.call.destination = "other.test";
  filler.call.repeatable = false;
  filler.call.timeout_ms = 1'500; // its slot is free after the cut, and before the dialler's patience is over
  sent.call.timeout_ms = 1'600;
  dialler.way.addresses = {"127.0.0.1:" + std::to_string(silent.port())};
  auto first = b.send(filler);
  REQUIRE(b.peer.wait_requests(1));
  auto second = b.send(sent);
  REQUIRE(b.peer.wait_requests(2));
  auto third = b.send(dialler); // takes the slot of what hangs
  auto a = get(std::move(second)).answer;
  CHECK(b.http().look().cut > 0);
  WARN(holds(a.problem, "no connection to ")); // else the machine is so slow that it dialled itself
  CHECK(a.status == 0);
  CHECK(a.request_sent);
}

TEST_CASE("http_client: its end answers everything") {
  tls_peer* peer = nullptr;
  bench b([&](const auto&) {
    peer->hang();
    return std::string();
  });
  peer = &b.peer;
  b.settings.max_in_flight = 2;
  std::vector<std::future<http_reply>> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(b.send(b.job()));
  REQUIRE(b.peer.wait_requests(2));
  b.client.reset();
  for (auto& f : all) {
    REQUIRE(f.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    CHECK(f.get().answer.cancelled);
  }
}

TEST_CASE("http_client: idle connections are closed after their time") {
  bench b(ok);
  b.settings.idle_connection_timeout_ms = 1'000;
  CHECK(get(b.send(b.job())).answer.status == 200);
  CHECK(b.http().look().connections == 1);
  CHECK(b.peer.wait_closed(1));
}

TEST_CASE("http_client: a certificate file that can't be read is said at once") {
  http_client_settings s;
  s.ca_file = "/nonexistent.pem";
  CHECK_THROWS_WITH_AS(http_client{s}, doctest::Contains("/nonexistent.pem"), std::runtime_error);
}

TEST_CASE("http_client: 190 hanging servers delay nobody else (B07)") {
  tls_peer* peer = nullptr;
  bench b([&](const tls_peer::request& r) {
    if (r.target == "/hang") peer->hang();
    return tls_peer::answer(200, "{}");
  });
  peer = &b.peer;
  b.settings.max_in_flight = 64;
  b.settings.verify_certificates = false;
  std::vector<std::future<http_reply>> hanging;
  std::promise<void> all_live;
  std::atomic<int> answered{0};
  for (int i = 0; i < 200; ++i) {
    auto j = b.job("PUT", "{\"n\":" + std::to_string(i) + "}");
    j.call.destination = j.asker = j.way.tls_name = "r" + std::to_string(i) + ".test";
    j.call.timeout_ms = 60'000;
    if (i < 190) {
      j.call.uri = "/hang";
      hanging.push_back(b.send(j));
      continue;
    }
    j.answer = [&](http_reply r) {
      if (r.answer.status == 200 && ++answered == 10) all_live.set_value();
    };
    b.http().submit(std::move(j));
  }
  REQUIRE(all_live.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  CHECK(b.http().look().in_flight <= 64);
  for (auto& f : hanging)
    CHECK(f.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  b.client.reset();
  for (auto& f : hanging)
    CHECK(f.get().answer.cancelled);
}
