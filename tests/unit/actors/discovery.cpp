#include "actors/discovery.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <set>

using namespace ranvier;

namespace {

/// A small world: what DNS and the .well-known files say. What it doesn't know doesn't exist (NXDOMAIN).
struct internet {
  std::map<std::string, std::vector<std::string>> addresses;
  std::map<std::string, std::vector<srv_record>> services;
  std::map<std::string, std::string> files; ///< host -> the server that it names
  std::vector<std::string> silent;          ///< names about which DNS fails
  std::set<std::string> aliases;
  discovery_rules rules;
  std::vector<std::string> asked;

  internet() {
    rules.chance = [] { return 0.0; };
  }

  lookup look(const std::string& name, bool srv) {
    asked.push_back((srv ? "srv " : "a ") + name);
    lookup l;
    if (std::find(silent.begin(), silent.end(), name) != silent.end()) {
      l.note = "DNS failed: no answer";
      return l;
    }
    l.what = lookup::outcome::no_name;
    if (srv && services.count(name)) l.services = services[name];
    if (!srv && addresses.count(name)) l.addresses = addresses[name];
    l.alias = !srv && aliases.count(name) > 0;
    if (!l.services.empty() || !l.addresses.empty()) l.what = lookup::outcome::found;
    return l;
  }

  route find(const std::string& server) {
    discovery d(server, rules);
    for (int i = 0; i < 100; ++i) {
      switch (d.wants()) {
      case discovery::need::nothing:
        return d.result();
      case discovery::need::addresses:
        d.take_addresses(look(d.about(), false));
        break;
      case discovery::need::services:
        d.take_services(look(d.about(), true));
        break;
      case discovery::need::well_known: {
        asked.push_back("file " + d.about());
        well_known_result w;
        w.note = "status 404";
        if (files.count(d.about()))
          w = {well_known_result::outcome::delegated, files[d.about()], "delegated", false, 0};
        if (std::find(silent.begin(), silent.end(), d.about()) != silent.end())
          w = {well_known_result::outcome::unknown, "", "DNS failed", true, 0};
        d.take(w);
        break;
      }
      }
    }
    FAIL("discovery of " << server << " doesn't end");
    return {};
  }
};

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& x : list)
    out += (out.empty() ? "" : " ") + x;
  return out;
}

/// Walks to a file with the answers given for each URL.
well_known_result walk(const std::string& host, std::map<std::string, well_known_walk::answer> pages,
                       const ip_ranges& deny = {}, const std::map<std::string, lookup>& dns = {}) {
  well_known_walk w(host, deny);
  for (int i = 0; i < 100 && w.wants() != well_known_walk::need::nothing; ++i) {
    if (w.wants() == well_known_walk::need::addresses) {
      lookup l;
      l.what = lookup::outcome::found;
      l.addresses = {"192.0.2.1"};
      w.take(dns.count(w.host()) ? dns.at(w.host()) : l);
      continue;
    }
    auto url = w.wanted_page().way.host_header + w.wanted_page().uri;
    well_known_walk::answer a;
    a.status = 404;
    w.take(pages.count(url) ? pages[url] : a);
  }
  REQUIRE(w.wants() == well_known_walk::need::nothing);
  return w.result();
}

well_known_walk::answer page(const std::string& body, int status = 200, const std::string& location = "") {
  well_known_walk::answer a;
  a.status = status;
  a.body = body;
  a.location = location;
  return a;
}

const std::string file = "/.well-known/matrix/server";

} // namespace

TEST_CASE("discovery: whom to dial, whose certificate, which Host (B116, D1 to D14)") {
  internet net;
  net.addresses = {{"r.example.org", {"192.0.2.1", "2001:db8::1"}},
                   {"m.example.org", {"192.0.2.2"}},
                   {"h.example.net", {"192.0.2.3"}},
                   {"old.example.net", {"192.0.2.4"}},
                   {"deleg.example.org", {"192.0.2.5"}}};
  net.files = {{"to-port.example", "m.example.org:443"},    {"to-srv.example", "deleg.example.org"},
               {"to-old-srv.example", "m.example.org"},     {"to-ip.example", "192.0.2.9"},
               {"to-ip-port.example", "[2001:db8::9]:448"}, {"to-plain.example", "r.example.org"}};
  net.services = {{"_matrix-fed._tcp.deleg.example.org", {{10, 0, 8443, "h.example.net"}}},
                  {"_matrix-fed._tcp.srv.example", {{10, 0, 443, "h.example.net"}}},
                  {"_matrix._tcp.m.example.org", {{10, 0, 4433, "old.example.net"}}},
                  {"_matrix._tcp.old.example", {{10, 0, 4434, "old.example.net"}}}};
  struct row {
    const char *server, *dial, *certificate, *host, *rule;
  };
  const row rows[] = {
      {"192.0.2.5", "192.0.2.5:8448", "192.0.2.5", "192.0.2.5", "D1"},
      {"192.0.2.5:1234", "192.0.2.5:1234", "192.0.2.5", "192.0.2.5:1234", "D1"},
      {"[2001:db8::7]", "[2001:db8::7]:8448", "2001:db8::7", "[2001:db8::7]", "D1"},
      {"r.example.org:1234", "192.0.2.1:1234 [2001:db8::1]:1234", "r.example.org", "r.example.org:1234", "D2"},
      {"to-port.example", "192.0.2.2:443", "m.example.org", "m.example.org:443", "D7"},
      {"to-ip.example", "192.0.2.9:8448", "192.0.2.9", "192.0.2.9", "D6"},
      {"to-ip-port.example", "[2001:db8::9]:448", "2001:db8::9", "[2001:db8::9]:448", "D6"},
      {"to-srv.example", "192.0.2.3:8443", "deleg.example.org", "deleg.example.org", "D8"},
      {"to-old-srv.example", "192.0.2.4:4433", "m.example.org", "m.example.org", "D9"},
      {"to-plain.example", "192.0.2.1:8448 [2001:db8::1]:8448", "r.example.org", "r.example.org", "D10"},
      {"srv.example", "192.0.2.3:443", "srv.example", "srv.example", "D12"},
      {"old.example", "192.0.2.4:4434", "old.example", "old.example", "D13"},
      {"r.example.org", "192.0.2.1:8448 [2001:db8::1]:8448", "r.example.org", "r.example.org", "D14"},
  };
  for (const auto& r : rows) {
    CAPTURE(std::string(r.server));
    CAPTURE(std::string(r.rule));
    auto way = net.find(r.server);
    CHECK(way.ok);
    CHECK(way.problem == "");
    CHECK(joined(way.addresses) == r.dial);
    CHECK(way.tls_name == r.certificate);
    CHECK(way.host_header == r.host);
    CHECK_FALSE(way.pinned);
    CHECK_FALSE(way.steps.empty());
  }
}

TEST_CASE("discovery: with a port in the name nothing but addresses is asked (B113)") {
  internet net;
  net.addresses["r.example"] = {"192.0.2.1"};
  net.files["w.example"] = "r.example:443";
  net.find("r.example:8448");
  CHECK(net.asked == std::vector<std::string>{"a r.example"});
  net.asked.clear();
  net.find("w.example");
  CHECK(net.asked == std::vector<std::string>{"file w.example", "a r.example"});
}

TEST_CASE("discovery: the old service label is asked for only if the new one has no record") {
  internet net;
  net.addresses["h.example"] = {"192.0.2.1"};
  net.services["_matrix-fed._tcp.r.example"] = {{1, 1, 1, "h.example"}};
  net.services["_matrix._tcp.r.example"] = {{1, 1, 2, "h.example"}};
  CHECK(joined(net.find("r.example").addresses) == "192.0.2.1:1");
}

TEST_CASE("discovery: a failure of DNS is no answer (B112)") {
  for (auto silent : {"r.example", "_matrix-fed._tcp.r.example", "_matrix._tcp.r.example"}) {
    CAPTURE(std::string(silent));
    internet net;
    net.addresses["r.example"] = {"192.0.2.1"};
    net.silent = {silent};
    auto way = net.find("r.example");
    CHECK_FALSE(way.ok);
    CHECK_FALSE(way.name_unknown);
    CHECK(way.addresses.empty());
    CHECK(way.problem.find("DNS failed") != std::string::npos);
  }
}

TEST_CASE("discovery: a name that isn't there is known as such; a missing SRV target is not") {
  internet net;
  CHECK(net.find("nowhere.example").name_unknown);
  CHECK(net.find("nowhere.example:8448").name_unknown);
  net.services["_matrix-fed._tcp.r.example"] = {{1, 1, 1, "gone.example"}};
  auto way = net.find("r.example");
  CHECK_FALSE(way.ok);
  CHECK_FALSE(way.name_unknown);
  CHECK(way.problem == "there is no name gone.example in DNS");
}

TEST_CASE("discovery: several SRV targets give their addresses in order; one that fails is left out") {
  internet net;
  net.addresses = {
      {"a.example", {"192.0.2.1"}}, {"b.example", {"192.0.2.2", "192.0.2.3"}}, {"c.example", {"192.0.2.4"}}};
  net.services["_matrix-fed._tcp.r.example"] = {
      {20, 0, 3, "c.example"}, {10, 0, 1, "a.example"}, {15, 0, 2, "b.example"}, {17, 0, 9, "x.example"}};
  net.silent = {"x.example"};
  CHECK(joined(net.find("r.example").addresses) == "192.0.2.1:1 192.0.2.2:2 192.0.2.3:2 192.0.2.4:3");
}

TEST_CASE("discovery: an SRV target that is an alias is used, and the steps say that it must not be one (D15)") {
  internet net;
  net.addresses = {{"a.example", {"192.0.2.1"}}, {"b.example", {"192.0.2.2"}}, {"plain.example", {"192.0.2.3"}}};
  net.aliases = {"b.example", "plain.example"};
  net.services["_matrix-fed._tcp.r.example"] = {{10, 0, 1, "a.example"}, {15, 0, 2, "b.example"}};
  auto told = [](const route& way) {
    std::string all;
    for (const auto& step : way.steps)
      if (step.find("CNAME") != std::string::npos) all += step + ";";
    return all;
  };
  auto way = net.find("r.example");
  CHECK(joined(way.addresses) == "192.0.2.1:1 192.0.2.2:2");
  CHECK(told(way) == "b.example is an alias (CNAME), which an SRV target must not be;");
  CHECK(told(net.find("plain.example")).empty()); // D14: the name itself may be one
}

TEST_CASE("discovery: the target \".\" says that there is no service (D16)") {
  internet net;
  net.addresses["r.example"] = {"192.0.2.1"};
  net.services["_matrix-fed._tcp.r.example"] = {{0, 0, 0, "."}};
  auto way = net.find("r.example");
  CHECK_FALSE(way.ok);
  CHECK(way.problem.find("isn't offered") != std::string::npos);
}

TEST_CASE("discovery: priorities come first, weights share the load (D16)") {
  std::vector<srv_record> records{{20, 1, 1, "late"}, {10, 30, 1, "heavy"}, {10, 10, 1, "light"}, {10, 0, 1, "zero"}};
  std::map<std::string, int> first;
  for (int i = 0; i < 1000; ++i) {
    auto order = order_services(records, [&] { return i / 1000.0; });
    REQUIRE(order.size() == 4);
    CHECK(order.back().target == "late");
    ++first[order.front().target];
  }
  CHECK(first["heavy"] > 2 * first["light"]);
  CHECK(first["light"] > 3 * first["zero"]);
  CHECK(first["zero"] > 0);
}

TEST_CASE("discovery: a static route comes before everything; ip_deny doesn't apply to it") {
  internet net;
  net.rules.deny = ip_ranges({"127.0.0.0/8", "192.0.2.0/24"});
  net.rules.addresses = {
      {"remote.test", "127.0.0.1:18448"}, {"named.test:99", "h.example:7"}, {"bad.test", "not an address"}};
  net.addresses["h.example"] = {"192.0.2.3"};
  auto way = net.find("remote.test");
  CHECK(way.ok);
  CHECK(way.pinned);
  CHECK(joined(way.addresses) == "127.0.0.1:18448");
  CHECK(way.host_header == "remote.test");
  CHECK(way.tls_name == "remote.test");
  CHECK(net.asked.empty());
  way = net.find("named.test:99");
  CHECK(joined(way.addresses) == "192.0.2.3:7");
  CHECK(way.host_header == "named.test:99");
  CHECK(way.tls_name == "named.test");
  CHECK_FALSE(net.find("bad.test").ok);
}

TEST_CASE("discovery: addresses in ip_deny are left out; if all are, the server is denied") {
  internet net;
  net.rules.deny = ip_ranges({"10.0.0.0/8", "::1/128"});
  net.addresses = {{"some.example", {"10.0.0.1", "192.0.2.1"}},
                   {"all.example", {"10.0.0.1", "::1", "::ffff:10.0.0.2"}}};
  auto way = net.find("some.example:1");
  CHECK(way.ok);
  CHECK(joined(way.addresses) == "192.0.2.1:1");
  way = net.find("all.example:1");
  CHECK_FALSE(way.ok);
  CHECK(way.denied);
  CHECK(way.problem.find("ip_deny") != std::string::npos);
  CHECK(net.find("10.1.2.3").denied);
}

TEST_CASE("discovery: what isn't a server name is said so") {
  internet net;
  for (auto name : {"", "a b", "x:99999", "[::1"})
    CHECK(net.find(name).problem.find("isn't a server name") != std::string::npos);
}

TEST_CASE("well-known: what is a valid file (D4, D5)") {
  auto what = [](const std::string& body, int status = 200) {
    return walk("r.example", {{"r.example" + file, page(body, status)}});
  };
  auto good = what("{\"m.server\": \"m.example:443\", \"more\": 1}");
  CHECK(good.what == well_known_result::outcome::delegated);
  CHECK(good.server == "m.example:443");
  CHECK(good.lifetime_ms == 86'400'000);
  struct row {
    const char* body;
    int status;
    bool passing;
  };
  for (const auto& r : {row{"{\"m.server\": \"m.example\"}", 201, false}, row{"", 404, false}, row{"", 503, true},
                        row{"", 429, true}, row{"<html>", 200, false}, row{"[]", 200, false}, row{"{}", 200, false},
                        row{"{\"m.server\": 7}", 200, false}, row{"{\"m.server\": \"a b\"}", 200, false},
                        row{"{\"m.server\": \"a:0\"}", 200, false}, row{"{\"m.server\": \"\"}", 200, false}}) {
    CAPTURE(std::string(r.body));
    auto w = what(r.body, r.status);
    CHECK(w.what == well_known_result::outcome::none);
    CHECK(w.passing == r.passing);
    CHECK_FALSE(w.note.empty());
  }
  auto none = page("", 0);
  none.problem = "no connection";
  CHECK(walk("r.example", {{"r.example" + file, none}}).passing);
}

TEST_CASE("well-known: redirects are followed, but not in circles, not for ever, and only to https") {
  auto good = page("{\"m.server\": \"m.example\"}");
  auto to = [](const std::string& location) { return page("", 302, location); };
  CHECK(walk("r.example", {{"r.example" + file, to("https://o.example/x?y=1")}, {"o.example/x?y=1", good}}).server ==
        "m.example");
  CHECK(walk("r.example", {{"r.example" + file, to("/other")}, {"r.example/other", good}}).server == "m.example");
  CHECK(walk("r.example", {{"r.example" + file, to("other")}, {"r.example/.well-known/matrix/other", good}}).server ==
        "m.example");
  CHECK(walk("r.example", {{"r.example" + file, to("//o.example:444/z")}, {"o.example:444/z", good}}).server ==
        "m.example");
  CHECK(walk("r.example", {{"r.example" + file, to("http://o.example/x")}, {"o.example/x", good}}).what ==
        well_known_result::outcome::none);
  CHECK(walk("r.example", {{"r.example" + file, to("https://a b/")}}).what == well_known_result::outcome::none);
  CHECK(walk("r.example", {{"r.example" + file, to("")}}).what == well_known_result::outcome::none);
  auto circle = walk("r.example", {{"r.example" + file, to("/a")},
                                   {"r.example/a", to("https://R.example/.well-known/matrix/server")}});
  CHECK(circle.note.find("back to itself") != std::string::npos);
  std::map<std::string, well_known_walk::answer> chain;
  chain["r.example" + file] = to("/0");
  for (int i = 0; i < 50; ++i)
    chain["r.example/" + std::to_string(i)] = to("/" + std::to_string(i + 1));
  CHECK(walk("r.example", chain).note == "more than 5 redirects");
}

TEST_CASE("well-known: it isn't asked of denied addresses, also not by a redirect") {
  ip_ranges deny({"10.0.0.0/8"});
  lookup inside;
  inside.what = lookup::outcome::found;
  inside.addresses = {"10.0.0.1"};
  std::map<std::string, lookup> dns{{"inside.example", inside}};
  CHECK(walk("inside.example", {}, deny, dns).note.find("ip_deny") != std::string::npos);
  for (auto target : {"https://inside.example/x", "https://10.0.0.7/x"})
    CHECK(walk("r.example", {{"r.example" + file, page("", 301, target)}}, deny, dns).note.find("ip_deny") !=
          std::string::npos);
}

TEST_CASE("well-known: DNS that fails is told apart from a name that isn't there") {
  lookup failed, missing;
  missing.what = lookup::outcome::no_name;
  CHECK(walk("r.example", {}, {}, {{"r.example", failed}}).what == well_known_result::outcome::unknown);
  CHECK(walk("r.example", {}, {}, {{"r.example", missing}}).what == well_known_result::outcome::none);
}

TEST_CASE("well-known: how long a delegation is kept (B110, D17)") {
  const std::int64_t minute = 60'000, day = 86'400'000;
  const std::string date = "Sun, 06 Nov 1994 08:00:00 GMT";
  CHECK(well_known_lifetime_ms("", "", "") == day);
  CHECK(well_known_lifetime_ms("public, Max-Age=300", "", "") == 300'000);
  CHECK(well_known_lifetime_ms("max-age=\"300\"", "", "") == 300'000);
  CHECK(well_known_lifetime_ms("max-age=0", "", "") == minute);
  CHECK(well_known_lifetime_ms("no-store", "", "") == minute);
  CHECK(well_known_lifetime_ms("max-age=1000000000", "", "") == 2 * day);
  CHECK(well_known_lifetime_ms("max-age=99999999999999999999999", "", "") == 2 * day);
  CHECK(well_known_lifetime_ms("max-age=x", "", "") == minute);
  CHECK(well_known_lifetime_ms("", "Sun, 06 Nov 1994 10:00:00 GMT", date) == 120 * minute);
  CHECK(well_known_lifetime_ms("", "Sat, 05 Nov 1994 10:00:00 GMT", date) == minute);
  CHECK(well_known_lifetime_ms("", "0", date) == minute);
  CHECK(well_known_lifetime_ms("max-age=600", "Sat, 05 Nov 1994 10:00:00 GMT", date) == 600'000);
}

TEST_CASE("ip_ranges: networks contain what they should") {
  std::vector<std::string> problems;
  ip_ranges r({"10.0.0.0/8", "192.0.2.128/25", "1.2.3.4", "fc00::/7", "10.0.0.0/33", "nonsense", "::/x"}, &problems);
  CHECK(problems.size() == 3);
  for (auto in : {"10.255.0.1", "192.0.2.128", "1.2.3.4", "fd00::1", "::ffff:10.1.1.1", "64:ff9b::a00:1"}) {
    CAPTURE(std::string(in));
    CHECK(r.contains(in));
  }
  for (auto out : {"11.0.0.1", "192.0.2.127", "1.2.3.5", "fe00::1", "::ffff:11.1.1.1", "nonsense", ""}) {
    CAPTURE(std::string(out));
    CHECK_FALSE(r.contains(out));
  }
  CHECK(address_of("[::1]:80") == "::1");
  CHECK(port_of("[::1]:80") == 80);
  CHECK(port_of("[::1]") == 0);
  CHECK(address_of("1.2.3.4:80") == "1.2.3.4");
  CHECK(address_with_port("::1", 5) == "[::1]:5");
}
