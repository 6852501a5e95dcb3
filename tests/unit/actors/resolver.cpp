#include "actors/resolver.hpp"

#include "tests/unit/actors/virtual_system.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>

using namespace ranvier;
using namespace std::chrono_literals;

namespace {

/// A resolver in virtual time whose DNS and HTTPS are tables; `answering` off keeps the questions open.
struct bench {
  test::virtual_system world;
  resolver_settings settings;
  std::map<std::string, std::vector<std::string>> addresses;
  std::map<std::string, std::vector<srv_record>> services;
  std::map<std::string, http_reply> pages; ///< by host
  bool dns_fails = false, answering = true;
  std::int64_t nothing_ttl_s = -1;   ///< what DNS says of names and records that aren't there
  std::int64_t wall_ahead_ms = 0;    ///< of the virtual clock
  std::shared_ptr<std::string> kept; ///< the facts' file, if there is one
  std::map<std::string, int> asked;
  std::vector<std::function<void()>> open;
  std::optional<resolver_actor> resolver;

  ~bench() {
    if (resolver) caf::anon_send_exit(*resolver, caf::exit_reason::kill);
    resolver.reset();
    world.drain();
  }

  void reply(std::function<void()> f) {
    if (answering) f();
    else open.push_back(std::move(f));
  }
  void answer_all() {
    while (!open.empty()) {
      auto now = std::move(open);
      open.clear();
      for (auto& f : now)
        f();
      world.drain();
    }
  }
  lookup look(const std::string& name, bool srv) {
    lookup l;
    l.note = "DNS failed: test";
    if (dns_fails) return l;
    l = {};
    l.ttl_s = nothing_ttl_s;
    l.what = lookup::outcome::no_name;
    if (srv && services.count(name)) l.services = services[name];
    if (!srv && addresses.count(name)) l.addresses = addresses[name];
    if (l.services.empty() && l.addresses.empty()) return l;
    l.what = lookup::outcome::found;
    l.ttl_s = 120;
    return l;
  }
  resolver_actor& actor() {
    if (resolver) return *resolver;
    resolver_tools t;
    t.chance = [] { return 0.0; };
    t.addresses = [this](std::string name, auto then) {
      ++asked["a " + name];
      reply([this, name, then] { then(look(name, false)); });
    };
    t.services = [this](std::string name, auto then) {
      ++asked["srv " + name];
      reply([this, name, then] { then(look(name, true)); });
    };
    t.fetch = [this](http_job j) {
      auto host = j.way.tls_name;
      ++asked["file " + host];
      CHECK(j.call.max_answer_bytes == 50 * 1024);
      CHECK(j.call.timeout_ms <= 30'000);
      http_reply none;
      none.answer.status = 404;
      reply([this, host, none, answer = j.answer] { answer(pages.count(host) ? pages[host] : none); });
    };
    if (kept) {
      t.load = [this] { return *kept; };
      t.save = [this](std::string text) { *kept = std::move(text); };
      t.wall_ms = [this] {
        auto now = world.system.clock().now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::milliseconds>(now).count() + wall_ahead_ms;
      };
    }
    return resolver.emplace(spawn_resolver(world.system, settings, std::move(t)));
  }
  using outcome = std::shared_ptr<std::optional<route>>;
  outcome ask(const std::string& name, bool no_cache = false, bool after_failure = false) {
    auto out = std::make_shared<std::optional<route>>();
    auto to = actor();
    world.system.spawn([=](caf::event_based_actor* self) {
      self->request(to, 3600s, make_local(resolve{name, no_cache, after_failure}))
          .then([=](local<route>& r) { *out = *r; }, [](caf::error&) { FAIL("no route came"); });
    });
    world.drain();
    return out;
  }
  route find(const std::string& name, bool no_cache = false, bool after_failure = false) {
    auto out = ask(name, no_cache, after_failure);
    REQUIRE(out->has_value());
    return **out;
  }
  static http_reply page(const std::string& server, const std::string& cache_control = "") {
    http_reply r;
    r.answer.status = 200;
    r.answer.body = shared_text("{\"m.server\":\"" + server + "\"}");
    r.cache_control = cache_control;
    return r;
  }
  static http_reply broken() {
    http_reply r;
    r.answer.problem = "no connection";
    return r;
  }
};

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& x : list)
    out += (out.empty() ? "" : "\n") + x;
  return out;
}

} // namespace

TEST_CASE("resolver: the whole way, with every step in words") {
  bench b;
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"h.example", {"192.0.2.2"}}};
  b.pages["r.example"] = bench::page("m.example");
  b.services["_matrix-fed._tcp.m.example"] = {{10, 5, 8443, "h.example"}};
  auto way = b.find("r.example");
  CHECK(way.ok);
  CHECK(joined(way.addresses) == "192.0.2.2:8443");
  CHECK(way.tls_name == "m.example");
  CHECK(joined(way.steps) == "GET https://r.example/.well-known/matrix/server\n"
                             ".well-known of r.example: delegated to m.example\n"
                             "SRV _matrix-fed._tcp.m.example: h.example:8443 (10 5)\n"
                             "addresses of h.example: 192.0.2.2\n"
                             "dial 192.0.2.2:8443; Host m.example; certificate for m.example");
}

TEST_CASE("resolver: equal questions are one discovery, and its outcome is everybody's (B43)") {
  bench b;
  b.answering = false;
  b.addresses["r.example"] = {"192.0.2.1"};
  std::vector<bench::outcome> all;
  for (int i = 0; i < 300; ++i)
    all.push_back(b.ask("r.example"));
  for (const auto& o : all)
    CHECK_FALSE(o->has_value());
  b.answer_all();
  for (const auto& o : all) {
    REQUIRE(o->has_value());
    CHECK((*o)->ok);
  }
  CHECK(b.asked["a r.example"] == 1); // one question serves .well-known and the last step
  CHECK(b.asked["file r.example"] == 1);
  CHECK(b.asked["srv _matrix._tcp.r.example"] == 1);
}

TEST_CASE("resolver: facts are kept for their time: delegations as their headers say, DNS answers for their TTL") {
  bench b;
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"m.example", {"192.0.2.2"}}};
  b.pages["r.example"] = bench::page("m.example:443", "max-age=300");
  b.find("r.example");
  b.world.advance(119s);
  b.find("r.example");
  CHECK(b.asked["a m.example"] == 1);
  b.world.advance(2s);
  b.find("r.example");
  CHECK(b.asked["a m.example"] == 2);
  CHECK(b.asked["file r.example"] == 1);
  b.pages["r.example"] = bench::page("r.example:8448", "max-age=300");
  b.world.advance(180s);
  CHECK(b.find("r.example").host_header == "r.example:8448");
  CHECK(b.asked["file r.example"] == 2);
}

TEST_CASE("resolver: that there is no file or no record is remembered too (B113, D18)") {
  bench b;
  b.addresses["r.example"] = {"192.0.2.1"};
  for (int i = 0; i < 1000; ++i) {
    b.find("r.example");
    b.world.advance(600ms);
  }
  CHECK(b.asked["srv _matrix-fed._tcp.r.example"] <= 3);
  CHECK(b.asked["srv _matrix._tcp.r.example"] <= 3);
  CHECK(b.asked["file r.example"] == 4); // at 0, 1, 3 and 7 minutes
  auto before = b.asked["file r.example"];
  for (int i = 0; i < 24 * 60; ++i) {
    b.find("r.example");
    b.world.advance(60s);
  }
  CHECK(b.asked["file r.example"] - before <= 28); // at most an hour apart in the end
  CHECK(b.asked["file r.example"] - before >= 23);
}

TEST_CASE(
    "resolver: the news that there is nothing live as long as DNS says, within half a minute and an hour (B113)") {
  struct row {
    std::int64_t told_s, wanted_s;
  };
  for (auto [told, wanted] : {row{600, 600}, row{0, 30}, row{100'000, 3'600}, row{-1, 300}}) {
    CAPTURE(told);
    bench b;
    b.addresses["m.example"] = {"192.0.2.1"};
    b.pages["r.example"] = bench::page("m.example");
    b.addresses["r.example"] = {"192.0.2.1"};
    b.nothing_ttl_s = told;
    b.find("r.example");
    b.world.advance(std::chrono::seconds(wanted - 1));
    b.find("r.example");
    CHECK(b.asked["srv _matrix-fed._tcp.m.example"] == 1);
    b.world.advance(1s);
    b.find("r.example");
    CHECK(b.asked["srv _matrix-fed._tcp.m.example"] == 2);
  }
}

TEST_CASE("resolver: a restart keeps what is known of .well-known files, and makes it no younger (B110)") {
  auto kept = std::make_shared<std::string>();
  std::int64_t wall_at_end = 0;
  {
    bench b;
    b.kept = kept;
    b.addresses = {{"r.example", {"192.0.2.1"}}, {"none.example", {"192.0.2.2"}}};
    b.pages["r.example"] = bench::page("192.0.2.7:443", "max-age=3600");
    b.find("r.example");
    b.find("none.example");
    b.world.advance(1min);
    b.find("none.example"); // its second refusal: the next look is 2 minutes later
    b.world.advance(10s);
    CHECK(kept->find("192.0.2.7:443") != std::string::npos); // before the end, so a crash loses little
    wall_at_end =
        std::chrono::duration_cast<std::chrono::milliseconds>(b.world.system.clock().now().time_since_epoch()).count();
  }
  bench b; // another clock, and ten minutes later by the wall
  b.kept = kept;
  auto here = std::chrono::duration_cast<std::chrono::milliseconds>(b.world.system.clock().now().time_since_epoch());
  b.wall_ahead_ms = wall_at_end + 600'000 - here.count();
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"none.example", {"192.0.2.2"}}};
  b.pages["r.example"] = bench::page("192.0.2.8:443");
  CHECK(b.find("r.example").host_header == "192.0.2.7:443");
  CHECK(b.asked["file r.example"] == 0);
  b.world.advance(48min); // an hour after it was fetched is 48:50 from now
  CHECK(b.find("r.example").host_header == "192.0.2.7:443");
  b.world.advance(1min);
  CHECK(b.find("r.example").host_header == "192.0.2.8:443");
  CHECK(b.asked["file r.example"] == 1);
  b.find("none.example"); // its third refusal
  CHECK(b.asked["file none.example"] == 1);
  b.world.advance(3min);
  b.find("none.example");
  CHECK(b.asked["file none.example"] == 1); // 4 minutes
  b.world.advance(1min);
  b.find("none.example");
  CHECK(b.asked["file none.example"] == 2);
}

TEST_CASE("resolver: a wall clock that was set back keeps nothing beyond two days; rubbish is nothing") {
  bench b;
  b.kept = std::make_shared<std::string>(
      R"({"version":1,"well_known":[{"host":"r.example","server":"192.0.2.7","until_ms":99999999999999}]})");
  b.addresses["r.example"] = {"192.0.2.1"};
  CHECK(b.find("r.example").host_header == "192.0.2.7");
  b.world.advance(49h);
  CHECK(b.find("r.example").host_header == "r.example");
  bench rubbish;
  rubbish.kept = std::make_shared<std::string>("{\"version\":1,");
  rubbish.addresses["r.example"] = {"192.0.2.1"};
  CHECK(rubbish.find("r.example").ok);
}

TEST_CASE("resolver: while DNS fails nothing is guessed; afterwards the right way is found at once (B112)") {
  bench b;
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"m.example", {"192.0.2.2"}}};
  b.pages["r.example"] = bench::page("m.example:443");
  b.dns_fails = true;
  auto way = b.find("r.example");
  CHECK_FALSE(way.ok);
  CHECK_FALSE(way.name_unknown);
  CHECK(way.problem.find("DNS failed") != std::string::npos);
  b.dns_fails = false;
  CHECK(joined(b.find("r.example").addresses) == "192.0.2.2:443");
}

TEST_CASE("resolver: old answers serve while DNS or the file can't be had") {
  bench b;
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"m.example", {"192.0.2.2"}}};
  b.pages["r.example"] = bench::page("m.example:443", "max-age=300");
  b.find("r.example");
  b.world.advance(10min);
  SUBCASE("DNS fails") { b.dns_fails = true; }
  SUBCASE("the file's server doesn't answer") { b.pages["r.example"] = bench::broken(); }
  CHECK(joined(b.find("r.example").addresses) == "192.0.2.2:443");
  b.world.advance(49h); // a delegation serves two days at the most
  auto way = b.find("r.example");
  if (b.dns_fails) CHECK_FALSE(way.ok);
  else CHECK(way.host_header == "r.example");
}

TEST_CASE("resolver: a file that is gone for good is believed") {
  bench b;
  b.addresses["r.example"] = {"192.0.2.1"};
  b.pages["r.example"] = bench::page("192.0.2.7", "max-age=300");
  CHECK(b.find("r.example").host_header == "192.0.2.7");
  b.pages.clear();
  b.world.advance(6min);
  CHECK(b.find("r.example").host_header == "r.example");
}

TEST_CASE("resolver: a route that failed is looked up anew, once in five minutes (B109)") {
  bench b;
  b.addresses["r.example"] = {"192.0.2.1"};
  b.pages["r.example"] = bench::page("192.0.2.7:8448", "max-age=86400");
  b.find("r.example");
  b.pages["r.example"] = bench::page("192.0.2.8:443", "max-age=86400");
  CHECK(b.find("r.example").host_header == "192.0.2.7:8448");
  CHECK(b.find("r.example", false, true).host_header == "192.0.2.8:443");
  b.pages["r.example"] = bench::page("192.0.2.9:443", "max-age=86400");
  CHECK(b.find("r.example", false, true).host_header == "192.0.2.8:443");
  b.world.advance(5min);
  CHECK(b.find("r.example", false, true).host_header == "192.0.2.9:443");
  CHECK(b.asked["file r.example"] == 3);
  b.pages["r.example"] = bench::page("192.0.2.10:443");
  CHECK(b.find("r.example", true).host_header == "192.0.2.10:443"); // an operator's word needs no wait
}

TEST_CASE("resolver: discoveries at a time are bounded, the others wait their turn") {
  bench b;
  b.settings.young_discoveries = 3;
  b.answering = false;
  std::vector<bench::outcome> all;
  for (int i = 0; i < 10; ++i) {
    auto name = "r" + std::to_string(i) + ".example";
    b.addresses[name] = {"192.0.2.1"};
    all.push_back(b.ask(name + ":8448"));
  }
  CHECK(b.open.size() == 3);
  b.answer_all();
  for (const auto& o : all)
    CHECK((o->has_value() && (*o)->ok));
}

TEST_CASE("resolver: thousands of names that nobody answers for hold up a live one for seconds only") {
  bench b;
  b.answering = false;
  for (int i = 0; i < 9'000; ++i)
    b.ask("dead" + std::to_string(i) + ".example:8448");
  CHECK(b.open.size() == b.settings.young_discoveries);
  b.addresses["live.example"] = {"192.0.2.1"};
  auto live = b.ask("live.example:8448");
  int ms = 0;
  while (!b.asked.count("a live.example") && ms < 60'000) {
    b.world.advance(125ms);
    ms += 125;
  }
  CHECK(ms <= 5'000);
  b.open.back()();
  b.world.drain();
  REQUIRE(live->has_value());
  CHECK((*live)->ok);
  b.answer_all();
}

TEST_CASE("resolver: its caches are bounded") {
  bench b;
  b.settings.cached_names = 10;
  for (int i = 0; i < 100; ++i)
    b.find("r" + std::to_string(i) + ".example");
  std::string text;
  auto to = b.actor();
  b.world.system.spawn([&text, to](caf::event_based_actor* self) {
    self->request(to, 1s, describe{}).then([&text](description& d) { text = d.json; }, [](caf::error&) {});
  });
  b.world.drain();
  auto d = nlohmann::json::parse(text);
  CHECK(d["kind"] == "resolver");
  CHECK(d["dns_cached"] == 30);
  CHECK(d["well_known_cached"] == 10);
  CHECK(d["failed"] == 100);
}

TEST_CASE("resolver: addresses and redirects of .well-known into denied networks are refused") {
  bench b;
  b.settings.ip_deny = {"10.0.0.0/8"};
  b.addresses = {{"r.example", {"192.0.2.1"}}, {"inside.example", {"10.0.0.1"}}};
  b.pages["r.example"].answer.status = 302;
  b.pages["r.example"].location = "https://inside.example/secret";
  CHECK(b.find("r.example").host_header == "r.example");
  CHECK(b.asked["file inside.example"] == 0);
  b.pages["r.example"] = bench::page("inside.example:443");
  b.world.advance(2min);
  CHECK(b.find("r.example").denied);
}
