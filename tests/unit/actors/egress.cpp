#include "actors/egress.hpp"

#include "tests/unit/actors/net/dns_peer.hpp"
#include "tests/unit/actors/net/http_client_peer.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>

using namespace ranvier;
using namespace std::chrono_literals;
using test::dns_peer;
using test::tls_peer;

namespace {

struct actors_config : caf::actor_system_config {
  actors_config() {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
    set("logger.file-verbosity", caf::atom("quiet"));
  }
};

/// Passes the answers on to the test.
http_asker::behavior_type pass_on(http_asker::pointer, caf::actor to) {
  return {[to](local<http_answer>& a) { caf::anon_send(to, a); }};
}

struct bench {
  tls_peer peer;
  dns_peer dns;
  config settings;
  actors_config cfg;
  caf::actor_system system{cfg};
  caf::scoped_actor self{system};
  outgoing out;
  http_asker asker;

  explicit bench(tls_peer::script s)
      : peer({"DNS:r.test", "DNS:m.test", "IP:127.0.0.1"}, std::move(s)) {
    settings.federation.ca_file = peer.authority_file();
    settings.federation.addresses["pinned.test"] = "127.0.0.1:" + std::to_string(peer.port());
    settings.delivery.connect_timeout_ms = 2'000;
  }
  ~bench() {
    caf::anon_send_exit(out.egress, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(out.resolver, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(asker, caf::exit_reason::user_shutdown);
  }
  void start() {
    settings.federation.dns_servers = {dns.at()};
    settings.data_dir.clear(); // nothing is kept
    out = spawn_outgoing(system, settings, 1);
    asker = system.spawn(pass_on, caf::actor_cast<caf::actor>(self));
  }
  void order(std::uint64_t id, const std::string& destination, const std::string& uri = "/x") {
    http_order o;
    o.asker = destination;
    o.call.id = id;
    o.call.destination = destination;
    o.call.method = "PUT";
    o.call.uri = uri;
    o.call.body = shared_text("{}");
    o.reply_to = asker;
    self->send(out.egress, make_local(std::move(o)));
  }
  http_answer answer() {
    http_answer out_answer;
    bool came = false;
    self->receive(
        [&](local<http_answer>& a) {
          out_answer = *a;
          came = true;
        },
        caf::after(30s) >> [] {});
    REQUIRE(came);
    return out_answer;
  }
  bool nothing_more() {
    bool none = false;
    self->receive([&](local<http_answer>&) {}, caf::after(0s) >> [&] { none = true; });
    return none;
  }
};

std::string ok(const tls_peer::request&) { return tls_peer::answer(200, "{}"); }

} // namespace

TEST_CASE("egress: IP literals, names with a port and delegated names each reach their server") {
  tls_peer* peer = nullptr;
  bench b([&](const tls_peer::request& r) { return tls_peer::answer(200, r.headers.at("host")); });
  peer = &b.peer;
  b.settings.federation.ip_deny = {};
  b.dns.address("r.test", "127.0.0.1");
  b.start();
  auto port = ":" + std::to_string(peer->port());
  b.order(1, "127.0.0.1" + port);
  CHECK(b.answer().body.str() == "127.0.0.1" + port);
  b.order(2, "r.test" + port);
  auto a = b.answer();
  CHECK(a.id == 2);
  CHECK(a.body.str() == "r.test" + port);
  CHECK(a.peer_address == b.peer.at());
  CHECK(peer->requests().back().sni == "r.test");
}

TEST_CASE("egress: a static route goes even into denied networks; others don't") {
  bench b(ok);
  b.settings.federation.ip_deny = {"127.0.0.0/8"};
  b.settings.federation.verify_certificates = false;
  b.start();
  b.order(1, "pinned.test");
  CHECK(b.answer().status == 200);
  CHECK(b.peer.requests().at(0).sni == "pinned.test");
  b.order(2, b.peer.at());
  auto a = b.answer();
  CHECK(a.status == 0);
  CHECK(a.stage == failure_stage::resolve);
  CHECK(a.problem.find("ip_deny") != std::string::npos);
  CHECK(b.peer.requests().size() == 1);
}

TEST_CASE("egress: a name that isn't there fails at stage resolve, and is known as such") {
  bench b(ok);
  b.start();
  b.order(1, "nowhere.test:8448");
  auto a = b.answer();
  CHECK(a.id == 1);
  CHECK(a.status == 0);
  CHECK(a.stage == failure_stage::resolve);
  CHECK(a.name_unknown);
  CHECK_FALSE(a.request_sent);
  b.order(2, "not a name");
  CHECK(b.answer().problem.find("isn't a server name") != std::string::npos);
}

TEST_CASE("egress: cancel answers what is outstanding, then says so, and nothing comes twice") {
  tls_peer* peer = nullptr;
  bench b([&](const auto&) {
    peer->hang();
    return std::string();
  });
  peer = &b.peer;
  b.settings.federation.verify_certificates = false;
  b.dns.set(dns_peer::mood::silence);
  b.start();
  b.order(1, "pinned.test", "/hang");
  REQUIRE(b.peer.wait_requests(1));
  bool ended = false;
  b.self->request(b.out.egress, 10s, make_local(cancel_calls{"pinned.test"}))
      .receive([&](done& d) { ended = d.ok; }, [](caf::error&) {});
  CHECK(ended);
  auto a = b.answer();
  CHECK(a.id == 1);
  CHECK(a.cancelled);
  CHECK(a.request_sent);
  // One that is still being resolved.
  b.order(2, "silent.test:1");
  ended = false;
  b.self->request(b.out.egress, 10s, make_local(cancel_calls{"silent.test:1"}))
      .receive([&](done& d) { ended = d.ok; }, [](caf::error&) {});
  CHECK(ended);
  a = b.answer();
  CHECK(a.id == 2);
  CHECK(a.cancelled);
  CHECK_FALSE(a.request_sent);
  // Nobody has anything outstanding: said at once.
  ended = false;
  b.self->request(b.out.egress, 10s, make_local(cancel_calls{"unknown"}))
      .receive([&](done& d) { ended = d.ok; }, [](caf::error&) {});
  CHECK(ended);
  CHECK(b.nothing_more());
}

TEST_CASE("egress: if it is ended, what is outstanding is answered all the same") {
  tls_peer* peer = nullptr;
  bench b([&](const auto&) {
    peer->hang();
    return std::string();
  });
  peer = &b.peer;
  b.settings.federation.verify_certificates = false;
  b.start();
  b.order(1, "pinned.test", "/hang");
  REQUIRE(b.peer.wait_requests(1));
  caf::anon_send_exit(b.out.egress, caf::exit_reason::kill);
  auto a = b.answer();
  CHECK(a.id == 1);
  CHECK(a.cancelled);
  CHECK(b.peer.wait_closed(0));
}

TEST_CASE("egress: it describes itself") {
  bench b(ok);
  b.settings.federation.verify_certificates = false;
  b.start();
  b.order(1, "pinned.test");
  CHECK(b.answer().status == 200);
  std::string text;
  b.self->request(b.out.egress, 10s, describe{}).receive([&](description& d) { text = d.json; }, [](caf::error&) {});
  auto d = nlohmann::json::parse(text);
  CHECK(d["kind"] == "egress");
  CHECK(d["state"] == "idle");
  CHECK(d["connections"] == 1);
  CHECK(d["queued"] == 0);
  CHECK(d["requests_started"] == 1);
}
