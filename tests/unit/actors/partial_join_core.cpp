// The room's actor under the real supervisor, ledger and destinations, in virtual time; servers are scripted.
#include "actors/partial_join_core.hpp"

#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "supervisor_bench.hpp"

#include <functional>
#include <set>

using namespace ranvier;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::int64_t minute_ms = 60'000, hour_ms = 60 * minute_ms, day_ms = 24 * hour_ms;
const std::string room = "!r:s0.test";

struct keyring_double_state {
  keyring_double_state() = default;
  static inline const char* name = "keyring double";
};

struct made_event {
  std::string id, text;
};
made_event event_of(const std::string& type, const json& content, const std::string& state_key,
                    const std::string& sender = "@creator:s0.test") {
  static const auto rules = *rules_of("10");
  const json bare{{"type", type},
                  {"room_id", room},
                  {"sender", sender},
                  {"state_key", state_key},
                  {"content", content},
                  {"origin_server_ts", 1'000},
                  {"depth", 1},
                  {"prev_events", json::array({"$p"})},
                  {"auth_events", json::array()}};
  const auto sealed = sign_event(bare.dump(), rules, sender.substr(sender.find(':') + 1), supervisor_bench::key());
  return {sealed.event_id, sealed.event};
}

struct bench : supervisor_bench::fixture {
  keyring_actor keyring;
  made_event create = event_of("m.room.create", {{"room_version", "10"}}, "");
  std::vector<made_event> members;
  std::set<std::string> up; ///< servers that answer
  std::function<void(const std::string&, http_answer&)> spoil{};

  explicit bench(int servers, std::int64_t abandon_after_ms = day_ms) {
    parts->settings.partial_join.abandon_after_ms = abandon_after_ms;
    keyring =
        time.system.spawn([](keyring_actor::stateful_pointer<keyring_double_state>) -> keyring_actor::behavior_type {
          return {[](const get_key&) {
                    got_key out;
                    out.key = supervisor_bench::key().public_key();
                    return out;
                  },
                  [](const describe&) { return description{"{}"}; }};
        });
    for (int i = 0; i < servers; ++i) {
      const auto who = "@u:" + name(i);
      members.push_back(event_of("m.room.member", {{"membership", "join"}}, who, who));
    }
    world.script = [this](const http_call& call, http_answer& answer) { serve(call, answer); };
    meet();
  }
  ~bench() {
    die();
    caf::anon_send_exit(keyring, caf::exit_reason::user_shutdown);
  }
  static std::string name(int number) { return "s" + std::to_string(number) + ".test"; }
  void meet() {
    caf::anon_send(supervisor, make_local(introduce{{}, keyring}));
    time.drain();
  }
  void again() {
    die();
    live();
    meet();
  }

  void serve(const http_call& call, http_answer& answer) {
    if (call.method != "GET") return;
    if (!up.contains(call.destination)) {
      answer.status = 0;
      answer.request_sent = false;
      answer.problem = "refused";
      return;
    }
    answer.status = 200;
    answer.problem = "";
    answer.request_sent = true;
    json body;
    if (call.uri.find("/state_ids/") != std::string::npos) {
      body = {{"pdu_ids", {create.id}}, {"auth_chain_ids", json::array()}};
      for (const auto& one : members)
        body["pdu_ids"].push_back(one.id);
    } else if (call.uri.find("/state/") != std::string::npos) {
      body = {{"pdus", json::array({json::parse(create.text)})}, {"auth_chain", json::array()}};
      for (const auto& one : members)
        body["pdus"].push_back(json::parse(one.text));
    } else {
      for (const auto& one : members)
        if (call.uri.find(percent_encode(one.id)) != std::string::npos) body["pdus"] = {json::parse(one.text)};
      if (body.is_null()) answer.status = 404;
    }
    answer.body = shared_text(body.dump());
    if (spoil) spoil(call.uri, answer);
  }

  void join(int servers, const std::string& who = "@a:us.test") {
    record_join what;
    what.room_id = room;
    what.room_version = "10";
    what.user_id = who;
    what.event_id = "$j" + who;
    what.event = R"({"prev_events":["$p"]})";
    what.joined_via = name(0);
    what.members_omitted = true;
    for (int i = 0; i < servers; ++i)
      what.servers_in_room.push_back(name(i));
    what.events = {{create.id, true, false, shared_text(create.text)}};
    caf::scoped_actor self{time.system};
    auto answer = self->request(parts->ledger, 10s, make_local(std::move(what)));
    time.drain();
    answer.receive([](const local<join_recorded>& done) { REQUIRE(done->partial); },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    time.drain();
  }
  json view() {
    caf::scoped_actor self{time.system};
    auto answer = self->request(supervisor, 10s, make_local(describe_joins{room}));
    time.drain();
    json all;
    answer.receive([&](const description& d) { all = json::parse(d.json).at("partial_joins"); },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    return all.empty() ? json() : all[0];
  }
  bool over() { return view().is_null(); }
  std::size_t state_questions() {
    return std::size_t(std::count_if(world.uris.begin(), world.uris.end(),
                                     [](const auto& uri) { return uri.find("/state") != std::string::npos; }));
  }
  std::int64_t count(const char* sql) {
    return storage::database(path(), storage::database::mode::read).integer(sql).value_or(-1);
  }
  done order(const std::string& verb) {
    caf::scoped_actor self{time.system};
    auto answer = self->request(supervisor, 10s, operate_join{room, verb, "because", "a test"});
    time.drain();
    done out;
    answer.receive([&](const done& d) { out = d; }, [&](const caf::error& e) { FAIL(time.system.render(e)); });
    time.drain();
    return out;
  }
};

} // namespace

TEST_CASE("partial_join: the state comes from the server that was joined through, and the join is over") {
  bench f(3);
  for (int i = 0; i < 3; ++i)
    f.up.insert(bench::name(i));
  f.join(3);
  f.pass(1'000);
  CHECK(f.over());
  CHECK(f.count("SELECT count(*) FROM member WHERE membership = 'join'") == 4);
  CHECK(f.count("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND json LIKE '%\"complete\"%'") == 1);
  const auto asked = f.state_questions();
  f.pass(day_ms);
  CHECK(f.state_questions() == asked);
}

TEST_CASE("partial_join: five candidates unreachable for a month, then one back: complete, with few requests") {
  bench f(5);
  f.join(5);
  f.pass(30 * day_ms);
  MESSAGE("state questions in a month: " << f.state_questions());
  CHECK(f.state_questions() < 200);
  REQUIRE_FALSE(f.over());
  for (const auto& [name, one] : f.view()["servers"].items()) {
    CAPTURE(name);
    CHECK(one["verdict"] == "unreachable");
    CHECK(one["next_attempt_ms"].is_number());
  }
  f.up.insert(bench::name(3)); // and says nothing
  f.pass(3 * day_ms);
  CHECK(f.over());
  CHECK(f.count("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND json LIKE '%\"complete\"%'") == 1);
}

TEST_CASE("partial_join: two thousand candidates, never more than three at a time, few requests") {
  bench f(1);
  std::size_t most = 0;
  f.world.takes_ms = 2'000; // they fall silent for so long
  f.join(2'000);
  f.pass(3 * day_ms); // the plan's test has the month
  for (std::size_t i = 0; i < f.world.uris.size(); ++i)
    if (f.world.uris[i].find("/state") != std::string::npos) {
      std::size_t during = 0;
      for (std::size_t k = i + 1; k-- > 0 && f.world.at_ms[i] - f.world.at_ms[k] < f.world.takes_ms;)
        if (f.world.uris[k].find("/state") != std::string::npos) ++during;
      most = std::max(most, during);
    }
  MESSAGE("state questions in three days: " << f.state_questions() << ", at most " << most << " at a time");
  CHECK(f.state_questions() < 2'100); // one an hour after the first round: 2,720 in a month
  CHECK(f.state_questions() >= 2'000);
  CHECK(most <= 3);
  f.world.takes_ms = 0;
  f.up.insert(bench::name(0));
  caf::anon_send(f.supervisor, heard_from{bench::name(0)});
  f.pass(minute_ms);
  CHECK(f.over());
}

TEST_CASE("partial_join: B91, a 403 shortly after the join isn't final; a 504 of the first doesn't stop the others") {
  bench f(3);
  for (int i = 0; i < 3; ++i)
    f.up.insert(bench::name(i));
  const auto begun = f.time.now_ms();
  f.world.script = [&](const http_call& call, http_answer& answer) {
    f.serve(call, answer);
    if (call.uri.find("/state") == std::string::npos) return;
    if (call.destination == bench::name(0)) answer.status = 504;
    else if (f.time.now_ms() - begun < 120'000) answer.status = 403;
  };
  f.join(3);
  f.pass(115'000);
  CHECK_FALSE(f.over());
  for (int i = 1; i < 3; ++i) {
    CHECK(f.asked(bench::name(i)) >= 2);
    CHECK(f.view()["servers"][bench::name(i)]["verdict"] == "refused");
  }
  f.pass(185'000); // t = 300
  CHECK(f.over());
}

TEST_CASE("partial_join: everybody refuses: abandoned after the grace period, over a restart too, never before") {
  bench f(2, 2 * hour_ms);
  for (int i = 0; i < 2; ++i)
    f.up.insert(bench::name(i));
  f.spoil = [](const std::string& uri, http_answer& answer) {
    if (uri.find("/state") != std::string::npos) answer.status = 403;
  };
  f.join(2);
  f.pass(hour_ms);
  REQUIRE_FALSE(f.over());
  CHECK(f.view()["abandoned_at_ms"].is_number());
  f.again();
  f.pass(50 * minute_ms);
  REQUIRE_FALSE(f.over());
  f.pass(20 * minute_ms);
  CHECK(f.over());
  CHECK(f.count("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND json LIKE '%\"abandoned\"%'") == 1);
}

TEST_CASE("partial_join: invalid data is counted against who gave it, and the state comes from another") {
  bench f(3);
  for (int i = 0; i < 3; ++i)
    f.up.insert(bench::name(i));
  f.world.script = [&](const http_call& call, http_answer& answer) {
    f.serve(call, answer);
    if (call.destination == bench::name(0) && call.uri.find("/event/") != std::string::npos) {
      auto forged = json::parse(f.members[1].text);
      forged["content"]["membership"] = "ban";
      answer.body = shared_text(json{{"pdus", {forged}}}.dump());
    }
    if (call.destination == bench::name(1)) answer.status = 500;
  };
  f.join(3);
  f.pass(5'000);
  CHECK(f.over());
  CHECK(
      f.count("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND "
              "json LIKE '%\"s0.test\":{\"verdict\":\"invalid\"%' AND json LIKE '%\"s2.test\":{\"verdict\":\"ok\"%'") ==
      1);
}

TEST_CASE("partial_join: retry and abandon by hand; an unknown order, and one for nobody, are refused in words") {
  bench f(2);
  f.join(2);
  f.pass(hour_ms);
  const auto asked = f.state_questions();
  CHECK(f.order("retry").ok);
  f.pass(1'000);
  CHECK(f.state_questions() > asked);
  CHECK_FALSE(f.order("sing").ok);
  CHECK(f.order("abandon").ok);
  CHECK(f.over());
  const auto refused = f.order("abandon");
  CHECK_FALSE(refused.ok);
  CHECK(refused.problem.find(room) != std::string::npos);
  CHECK(f.count("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND json LIKE '%by hand: because%'") == 1);
}

TEST_CASE("partial_join: left and joined again while an old answer is on its way: it is ignored") {
  bench f(2);
  for (int i = 0; i < 2; ++i)
    f.up.insert(bench::name(i));
  f.world.takes_ms = 10'000;
  f.join(2);
  f.pass(1'000);
  f.feed({R"({"kind":"membership","room_id":")" + room + R"(","user_id":"@a:us.test","membership":"leave"})"});
  CHECK(f.over());
  f.members.pop_back(); // the first answers, which are on their way, have one more
  f.join(2);
  f.pass(9'500); // those are here
  CHECK_FALSE(f.over());
  f.pass(60'000);
  CHECK(f.over());
  CHECK(f.count("SELECT count(*) FROM member WHERE membership = 'join'") == 2);
}

TEST_CASE("partial_join: while the store can't be read the supervisor asks again after a moment, not at once") {
  bench f(1);
  f.join(1); // unreachable: it waits
  f.die();
  f.live();
  auto gone = spawn_reader(f.time.system, {f.path(), f.parts->wall_ms, {}, 50, "gone"}, false);
  caf::anon_send_exit(gone, caf::exit_reason::user_shutdown);
  f.time.drain();
  bool down = true;
  int asked = 0;
  f.parts->reader = [&](const std::string&) { return ++asked, down ? gone : f.reader; };
  f.up.insert(bench::name(0));
  f.meet();
  f.pass(60'000);
  CHECK(asked >= 10);
  CHECK(asked < 60);
  down = false;
  f.pass(10'000);
  CHECK(f.over());
  f.parts->reader = [&f](const std::string&) { return f.reader; };
}

namespace {

struct slow_ledger_state {
  slow_ledger_state() = default;
  static inline const char* name = "slow ledger";
  caf::typed_response_promise<local<partial_join_ended>> asker;
};

/// A room's actor alone, whose ledger takes the end of the join and says nothing until it is told to.
struct abandoning {
  bench f{1};
  caf::actor ledger = f.time.system.spawn([](caf::stateful_actor<slow_ledger_state>* self) -> caf::behavior {
    return {[self](const local<end_partial_join>&) {
              return self->state.asker = self->make_response_promise<local<partial_join_ended>>();
            },
            [](const local<save_join_progress>&) { return done{}; },
            [self](bool ok) {
              partial_join_ended out;
              out.ok = ok;
              out.problem = ok ? "" : "the disk is full";
              self->state.asker.deliver(make_local(std::move(out)));
            }};
  });
  std::shared_ptr<destination_parts> parts = std::make_shared<destination_parts>(*f.parts);
  bool clock_broken = false;
  partial_join_actor actor;
  std::optional<done> told;

  abandoning() {
    parts->ledger = caf::actor_cast<ledger_actor>(ledger);
    parts->wall_ms = [this] {
      if (clock_broken) throw std::runtime_error("made to crash");
      return f.wall_ms();
    };
    partial_join_row row;
    row.room_id = room;
    row.room_version = "10";
    row.event = R"({"prev_events":["$p"]})";
    row.joined_via = bench::name(0);
    row.servers = {bench::name(0)};
    row.generation = 1;
    actor = spawn_partial_join(f.time.system, {parts, f.supervisor, f.keyring}, row);
    f.pass(1'000);
    f.time.system.spawn([this](caf::event_based_actor* self) {
      self->request(actor, caf::infinite, operate_join{room, "abandon", "", "a test"})
          .then([this](const done& d) { told = d; }, [](const caf::error&) {});
    });
    f.time.drain();
    REQUIRE_FALSE(told);
  }
  ~abandoning() {
    caf::anon_send_exit(ledger, caf::exit_reason::kill);
    f.time.drain();
  }
};

} // namespace

TEST_CASE("partial_join: who abandons is answered although the actor is told to go before the ledger has said how") {
  for (const bool ok : {true, false}) {
    abandoning one;
    caf::anon_send_exit(one.actor, caf::exit_reason::user_shutdown);
    one.f.pass(500);
    CHECK_FALSE(one.told); // nobody knows yet
    caf::anon_send(one.ledger, ok);
    one.f.time.drain();
    REQUIRE(one.told);
    CHECK(one.told->ok == ok);
    CHECK(one.told->problem == (ok ? "" : "the disk is full"));
  }
}

TEST_CASE("partial_join: who abandons is answered within seconds of the actor's end if the ledger never says how") {
  abandoning one;
  caf::anon_send_exit(one.actor, caf::exit_reason::user_shutdown);
  one.f.pass(2'500);
  REQUIRE(one.told);
  CHECK_FALSE(one.told->ok);
  CHECK(one.told->problem.find("in time") != std::string::npos);
}

TEST_CASE("partial_join: who abandons is answered when the actor crashes meanwhile") {
  abandoning one;
  one.clock_broken = true;
  caf::anon_send(one.actor, heard_from{bench::name(0)});
  one.f.time.drain();
  REQUIRE(one.told);
  CHECK(one.told->problem.find("made to crash") != std::string::npos);
}
