#include "messages/ids.hpp"
#include "tests/unit/actors/supervisor_bench.hpp"

using namespace ranvier;
using namespace std::chrono_literals;
using nlohmann::json;
using supervisor_bench::fixture;

namespace {

/// Servers of the tests give lists; our alice shares a room with the users of each.
struct lists : fixture {
  std::map<std::string, int> refuse{}; ///< server -> what it answers to list requests; 0: connecting fails
  std::map<std::string, std::vector<std::int64_t>> fetched{}; ///< user -> when
  int stream_id = 10;

  explicit lists(std::int64_t first_ms = 60'000)
      : fixture(first_ms) {
    world.script = [this](const http_call& call, http_answer& answer) {
      const std::string path = "/_matrix/federation/v1/user/devices/";
      if (!call.uri.starts_with(path)) return;
      const auto user = *percent_decode(call.uri.substr(path.size()));
      fetched[user].push_back(time.now_ms());
      answer.status = 200;
      answer.body = shared_text(json{{"user_id", user}, {"stream_id", stream_id}, {"devices", json::array()}}.dump());
      if (const auto how = refuse.find(std::string(server_of(user))); how != refuse.end()) {
        answer.status = how->second;
        answer.request_sent = how->second != 0;
        answer.problem = how->second == 0 ? "refused" : "";
        answer.body = shared_text(std::string("{}"));
      }
    };
  }
  void share(const std::vector<std::string>& users) {
    json members{{"@alice:us.test", "join"}};
    for (const auto& user : users)
      members[user] = "join";
    feed({json{{"kind", "roster"}, {"room_id", "!r:x"}, {"room_version", "10"}, {"members", members}}.dump()});
  }
  /// An update with a gap, of each of these users of one server.
  void announce_change(const std::vector<std::string>& users) {
    inbound_transaction in;
    in.origin = std::string(server_of(users.front()));
    in.txn_id = "t" + std::to_string(++stream_id);
    in.answer = "{}";
    for (const auto& user : users) {
      device_list_edu edu;
      edu.user = user;
      edu.device = "D";
      edu.stream_id = stream_id;
      edu.prev_ids = {stream_id - 1};
      in.device_changes.emplace_back(edu);
    }
    caf::scoped_actor self{time.system};
    auto answer = self->request(parts->ledger, 10s, make_local(std::move(in)));
    time.drain();
    answer.receive([&](const local<inbound_outcome>& out) { REQUIRE(out->ok); },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    time.drain();
  }
  refreshed want(const std::string& server, const std::vector<std::string>& users, bool by_hand = false,
                 std::int64_t within_ms = 10'000) {
    caf::scoped_actor self{time.system};
    auto answer = self->request(supervisor, 60s, refresh_lists{server, users, within_ms, by_hand});
    time.drain();
    if (world.takes_ms > 0) pass(within_ms);
    refreshed out;
    answer.receive([&](const refreshed& r) { out = r; }, [&](const caf::error& e) { FAIL(time.system.render(e)); });
    return out;
  }
  std::vector<stale_user> stale() {
    caf::scoped_actor self{time.system};
    auto answer = self->request(reader, 10s, make_local(list_stale{}));
    time.drain();
    std::vector<stale_user> out;
    answer.receive([&](const local<stale_users>& all) { out = all->list; },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    return out;
  }
  std::size_t fetches() const {
    std::size_t all = 0;
    for (const auto& [user, when] : fetched)
      all += when.size();
    return all;
  }
};

std::vector<std::string> users_of(const std::string& server, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i)
    out.push_back("@u" + std::to_string(i) + ":" + server);
  return out;
}

} // namespace

TEST_CASE("destination: marked lists are fetched, the marks go, and the actor retires") {
  lists f;
  const auto users = users_of("r.test", 5);
  f.share(users);
  f.announce_change(users);
  f.pass(100);
  CHECK(f.fetches() == 5);
  CHECK(f.stale().empty());
  f.pass(31'000);
  CHECK(f.actor_of("r.test").is_null());
}

TEST_CASE(
    "destination: B62, what couldn't be fetched is remembered over a crash, and fetched when the server is well") {
  lists f(5'000);
  f.share({"@b:r.test"});
  f.refuse["r.test"] = 503;
  f.announce_change({"@b:r.test"});
  f.pass(1'000);
  CHECK(f.fetches() == 1);
  REQUIRE(f.stale().size() == 1);
  CHECK_FALSE(f.stale()[0].problem.empty());
  CHECK(f.actor_of("r.test").is_object());
  f.die();
  f.live();
  f.pass(3'000);
  CHECK(f.fetches() == 1); // its wait survives the restart (B16)
  f.refuse.clear();
  f.pass(10'000);
  CHECK(f.fetches() == 2);
  CHECK(f.stale().empty());
}

TEST_CASE("destination: B65, hosts that refuse or are gone cost at most 12 requests a day") {
  lists f(60'000);
  std::vector<std::string> all;
  const std::map<std::string, int> hosts{
      {"a.test", 301}, {"b.test", 403}, {"c.test", 404}, {"d.test", 0}, {"e.test", 503}};
  for (const auto& [host, status] : hosts)
    for (const auto& user : users_of(host, 10))
      all.push_back(user);
  f.share(all);
  f.refuse = hosts;
  for (const auto& [host, status] : hosts)
    f.announce_change(users_of(host, 10));
  f.pass(86'400'000);
  std::map<std::string, std::size_t> count;
  for (const auto& [user, when] : f.fetched)
    count[std::string(server_of(user))] += when.size();
  for (const auto& [host, status] : hosts) {
    CAPTURE(host);
    CHECK(count[host] >= 8);
    CHECK(count[host] <= 12);
  }
  CHECK(f.stale().size() == 50);
  f.refuse.clear();
  f.pass(2 * 86'400'000);
  CHECK(f.stale().empty());
}

TEST_CASE("destination: a refused user's wait survives a restart, and an operator goes over it") {
  lists f;
  f.share({"@b:r.test"});
  f.refuse["r.test"] = 404;
  f.announce_change({"@b:r.test"});
  f.pass(1'000);
  REQUIRE(f.stale().size() == 1);
  CHECK(f.stale()[0].failures == 1);
  CHECK(f.stale()[0].next_attempt_ms > f.wall_ms() + 50'000);
  f.die();
  f.live();
  f.pass(50'000);
  CHECK(f.fetches() == 1);
  const auto told = f.want("r.test", {"@b:r.test"});
  CHECK(told.failed.size() == 1);
  CHECK(told.server_problem.empty());
  CHECK(f.fetches() == 1);
  f.refuse.clear();
  CHECK(f.want("r.test", {"@b:r.test"}, true).failed.empty());
  CHECK(f.fetches() == 2);
  CHECK(f.stale().empty());
}

TEST_CASE("destination: a list that nobody holds is fetched for whoever wants it, once; an unknown user is no failure "
          "of it") {
  lists f;
  f.share({"@b:r.test", "@x:gone.test"});
  CHECK(f.want("r.test", {"@b:r.test"}).failed.empty());
  CHECK(f.want("r.test", {"@b:r.test"}).failed.empty());
  CHECK(f.fetches() == 1); // the second found it fresh
  f.refuse["gone.test"] = 404;
  const auto told = f.want("gone.test", {"@x:gone.test"});
  CHECK(told.failed.size() == 1);
  CHECK(told.unknown == std::vector<std::string>{"@x:gone.test"});
  CHECK(f.stale().size() == 1); // visibly left alone for a while
  f.want("gone.test", {"@x:gone.test"});
  CHECK(f.fetched["@x:gone.test"].size() == 1);
}

TEST_CASE("destination: B67, while a server waits nothing is asked, everybody is told at once and marked once") {
  lists f(3'600'000);
  const auto users = users_of("r.test", 4);
  f.share(users);
  f.refuse["r.test"] = 0;
  CHECK(f.want("r.test", {users[0]}).failed.size() == 1);
  CHECK(f.fetches() == 1);
  for (int i = 0; i < 500; ++i) {
    const auto told = f.want("r.test", users);
    REQUIRE_FALSE(told.server_problem.empty());
    REQUIRE(told.failed.size() == users.size());
    f.pass(100);
  }
  CHECK(f.fetches() == 1);
  CHECK(f.stale().size() == 4);
  f.refuse.clear();
  f.world.takes_ms = 5'000;
  f.pass(3'600'000 - 50'000 + 1'000);
  CHECK(f.fetches() == 2); // one sees whether it works
  f.pass(60'000);
  CHECK(f.fetches() == 5);
  CHECK(f.stale().empty());
}

TEST_CASE("destination: the caller's time ends its wait, not the fetch") {
  lists f;
  f.share({"@b:r.test"});
  f.world.takes_ms = 20'000;
  const auto told = f.want("r.test", {"@b:r.test"}, false, 3'000);
  CHECK(told.failed.size() == 1);
  CHECK(told.server_problem.empty());
  f.pass(30'000);
  CHECK(f.want("r.test", {"@b:r.test"}, false, 3'000).failed.empty());
  CHECK(f.fetches() == 1);
}
