#include "actors/net/dns.hpp"

#include "tests/unit/actors/net/dns_peer.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <future>

#include <unistd.h>

using namespace ranvier;
using test::dns_peer;

namespace {

lookup ask(dns_client& c, const std::string& name, bool services = false) {
  auto p = std::make_shared<std::promise<lookup>>();
  auto f = p->get_future();
  auto then = [p](lookup l) { p->set_value(std::move(l)); };
  if (services) c.services(name, then);
  else c.addresses(name, then);
  REQUIRE(f.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  return f.get();
}

dns_settings fast(const std::vector<std::string>& servers) {
  dns_settings s;
  s.servers = servers;
  s.timeout_ms = 150;
  return s;
}

} // namespace

TEST_CASE("dns: addresses of both families, aliases followed, IPv4 first") {
  dns_peer peer;
  peer.address("r.example", "2001:db8::1");
  peer.address("r.example", "192.0.2.1");
  peer.address("r.example", "192.0.2.2");
  peer.alias("www.example", "r.example");
  dns_client c(fast({peer.at()}));
  for (auto name : {"r.example", "www.example"}) {
    auto l = ask(c, name);
    CHECK(l.what == lookup::outcome::found);
    CHECK(l.addresses == std::vector<std::string>{"192.0.2.1", "192.0.2.2", "2001:db8::1"});
    CHECK(l.ttl_s == 120);
    CHECK(l.alias == (name == std::string("www.example")));
  }
}

TEST_CASE("dns: services with all their numbers") {
  dns_peer peer;
  peer.service("_matrix-fed._tcp.r.example", {10, 5, 8443, "h.example"});
  peer.service("_matrix-fed._tcp.none.example", {0, 0, 0, "."});
  dns_client c(fast({peer.at()}));
  auto l = ask(c, "_matrix-fed._tcp.r.example", true);
  CHECK(l.what == lookup::outcome::found);
  CHECK(l.services == std::vector<srv_record>{{10, 5, 8443, "h.example"}});
  CHECK(l.ttl_s == 120);
  l = ask(c, "_matrix-fed._tcp.none.example", true);
  REQUIRE(l.services.size() == 1);
  CHECK((l.services[0].target == "" || l.services[0].target == "."));
}

TEST_CASE("dns: no such name, no such record, a failing server and a silent one are told apart (B112)") {
  dns_peer peer;
  peer.address("r.example", "192.0.2.1");
  dns_client c(fast({peer.at()}));
  CHECK(ask(c, "x.example").what == lookup::outcome::no_name);
  CHECK(ask(c, "r.example", true).what == lookup::outcome::no_records);
  for (auto mood : {dns_peer::mood::server_failure, dns_peer::mood::silence}) {
    peer.set(mood);
    auto l = ask(c, "r.example");
    CHECK(l.what == lookup::outcome::failed);
    CHECK(l.note.find(peer.at()) != std::string::npos); // which server was asked (B115)
    CHECK(ask(c, "r.example", true).what == lookup::outcome::failed);
  }
  peer.set(dns_peer::mood::answer);
  CHECK(ask(c, "r.example").what == lookup::outcome::found);
}

TEST_CASE("dns: the next server answers if the first is silent (B115)") {
  dns_peer silent, good;
  silent.set(dns_peer::mood::silence);
  good.address("r.example", "192.0.2.1");
  dns_client c(fast({silent.at(), good.at()}));
  CHECK(ask(c, "r.example").addresses == std::vector<std::string>{"192.0.2.1"});
}

TEST_CASE("dns: a server that refuses is passed over at once (B115)") {
  dns_peer bad, good;
  good.address("r.example", "192.0.2.1");
  for (auto mood : {dns_peer::mood::refusal, dns_peer::mood::server_failure}) {
    bad.set(mood);
    auto s = fast({bad.at(), good.at()});
    s.timeout_ms = 20'000; // so it isn't waited for
    dns_client c(s);
    CHECK(ask(c, "r.example").addresses == std::vector<std::string>{"192.0.2.1"});
  }
}

TEST_CASE("dns: a server that never answers is set aside, and asked when the others fail (B115)") {
  dns_peer silent, good;
  silent.set(dns_peer::mood::silence);
  good.address("r.example", "192.0.2.1");
  dns_client c(fast({silent.at(), good.at()}));
  CHECK(ask(c, "r.example").what == lookup::outcome::found);
  auto before = silent.questions("r.example");
  CHECK(before == 2); // A and AAAA
  for (int i = 0; i < 5; ++i)
    CHECK(ask(c, "r.example").what == lookup::outcome::found);
  CHECK(silent.questions("r.example") == before);
  silent.address("r.example", "192.0.2.2");
  silent.set(dns_peer::mood::answer);
  good.set(dns_peer::mood::server_failure);
  CHECK(ask(c, "r.example").addresses == std::vector<std::string>{"192.0.2.2"});
}

TEST_CASE("dns: a server whose address has a zone can't be used; the next one is, and it is named (B115)") {
  dns_peer good;
  good.address("r.example", "192.0.2.1");
  dns_client both(fast({"fe80::1%eth0", good.at()}));
  CHECK(ask(both, "r.example").what == lookup::outcome::found);
  dns_client only(fast({"fe80::1%eth0"}));
  auto l = ask(only, "r.example");
  CHECK(l.what == lookup::outcome::failed);
  CHECK(l.note.find("fe80::1%eth0") != std::string::npos);
}

TEST_CASE("dns: the news that there is nothing live as long as the zone says (B113)") {
  dns_peer peer;
  peer.address("r.example", "192.0.2.1");
  peer.alias("www.example", "r.example");
  dns_client c(fast({peer.at()}));
  CHECK(ask(c, "x.example").ttl_s == -1);
  peer.nothing_lives(900, 300);
  CHECK(ask(c, "x.example").ttl_s == 300);
  CHECK(ask(c, "r.example", true).ttl_s == 300);
  CHECK(ask(c, "www.example", true).ttl_s == 300);
  CHECK(ask(c, "r.example").ttl_s == 120); // the AAAA that isn't there doesn't shorten what is
  peer.nothing_lives(60, 300);
  CHECK(ask(c, "x.example").ttl_s == 60);
}

TEST_CASE("dns: the servers are those of the system's file") {
  dns_peer peer;
  peer.address("r.example", "192.0.2.1");
  char path[] = "/tmp/resolv-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  dns_settings s;
  s.system_file = path;
  s.timeout_ms = 150;
  {
    dns_client c(s);
    auto l = ask(c, "r.example");
    CHECK(l.what == lookup::outcome::failed);
    CHECK(l.note.find("none is configured") != std::string::npos);
  }
  std::ofstream(path) << "# ours\nnameserver " << peer.at() << "\noptions rotate\n";
  dns_client c(s);
  CHECK(ask(c, "r.example").what == lookup::outcome::found);
  std::remove(path);
}

TEST_CASE("dns: localhost is known without asking") {
  dns_peer peer;
  dns_client c(fast({peer.at()}));
  auto l = ask(c, "localhost");
  CHECK(l.what == lookup::outcome::found);
  CHECK(l.addresses.at(0) == "127.0.0.1");
  CHECK(peer.questions("localhost") == 0);
}

TEST_CASE("dns: its end answers what is open") {
  dns_peer peer;
  peer.set(dns_peer::mood::silence);
  std::promise<lookup> p;
  {
    dns_settings s;
    s.servers = {peer.at()};
    s.timeout_ms = 60'000;
    dns_client c(s);
    c.addresses("r.example", [&](lookup l) { p.set_value(std::move(l)); });
  }
  CHECK(p.get_future().get().what == lookup::outcome::failed);
}

TEST_CASE("dns: what isn't a server is said at once") {
  dns_settings s;
  s.servers = {"not a server"};
  CHECK_THROWS_AS(dns_client{s}, std::runtime_error);
}
