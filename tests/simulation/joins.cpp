// Joins whose answers left the members out, through servers that vanish, refuse, lie, answer half and come back after
// days, with restarts of ours at any step (DESIGN section 8).
#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "storage/database.hpp"
#include "tests/simulation/life.hpp"
#include "tests/simulation/model.hpp"
#include "tests/simulation/run.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>

using namespace ranvier;
using namespace ranvier::sim;
using nlohmann::json;

namespace {

constexpr std::int64_t start_ms = day, healed_ms = start_ms + 6 * day, longest_healing_ms = 3 * day;

/// What a server that is reached says of a room's state.
enum class honesty : std::uint8_t { honest, refuses, half, forges, garbage };

struct room_of_theirs {
  std::string id, via;
  std::vector<std::pair<std::string, std::string>> state; ///< event id, text
  std::vector<std::string> servers;                       ///< with a member
  std::vector<std::string> told;                          ///< the list that came with the join's answer
  std::string user;                                       ///< ours, who joins
  std::int64_t joins_ms = 0, leaves_ms = 0, joined_ms = 0;
};

class joins_run {
public:
  explicit joins_run(std::uint64_t seed)
      : outside_(seed)
      , random_(seed * 31 + 7) {
    settings_.server_name = our_name;
    outside_.backoff = settings_.backoff;
    outside_.rooms = [this](peer& p, const http_call& call) { return say(p, call); };
    std::ostringstream name;
    name << "joins-" << seed << '-' << static_cast<const void*>(this) << ".db";
    const std::filesystem::path memory = "/dev/shm";
    const auto folder =
        (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) / "ranvier-simulation";
    std::filesystem::create_directories(folder);
    database_ = (folder / name.str()).string();
    remove_database();
    make_peers();
    make_rooms();
  }
  ~joins_run() {
    life_.reset();
    remove_database();
  }

  void go();

  world& outside() { return outside_; }
  std::size_t complete = 0, abandoned = 0, left = 0, waited_ms = 0, lists = 0, restarts = 0, samples = 0;
  std::function<void(const std::string& database)> sabotage;
  std::function<void(json& views)> blind; ///< for a test of the judge: what an operator is shown

private:
  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }
  void remove_database() {
    for (const char* more : {"", "-wal", "-shm"})
      std::filesystem::remove(database_ + more);
  }
  void make_peers();
  void make_rooms();
  std::pair<std::string, std::string> event(const room_of_theirs& room, const std::string& type, const json& content,
                                            const std::string& state_key, const std::string& sender);
  http_answer say(peer& p, const http_call& call);
  void step_to(std::int64_t at_ms);
  void look();
  void join(room_of_theirs& room);
  void leave(const room_of_theirs& room);
  void change_device(const std::string& user);
  void feed(const json& line);
  void die();
  void judge();

  world outside_;
  std::mt19937_64 random_;
  config settings_;
  std::string database_;
  std::unique_ptr<life> life_;
  std::int64_t now_ms_ = start_ms;
  std::vector<room_of_theirs> rooms_;
  std::map<std::string, std::vector<std::pair<std::int64_t, honesty>>> conduct_; ///< of a server, from a moment on
  std::map<std::string, device_texts> devices_;
  std::map<std::string, std::int64_t> changed_ms_; ///< when a user of ours changed a device last
  int serial_ = 0;
};

void joins_run::make_peers() {
  const conduct deaths[] = {conduct::no_name, conduct::refusing, conduct::unreachable, conduct::bad_certificate,
                            conduct::silent,  conduct::broken,   conduct::limiting,    conduct::page};
  for (int i = 1; i <= 14; ++i) {
    peer p;
    p.name = "r" + std::to_string(i) + ".example.org";
    p.told_wait_ms = pick(1, 600) * second;
    p.latency_ms = pick(5, 2'000);
    if (i % 4 != 0) // the others are always well, which doesn't mean honest
      for (auto n = pick(1, 4); n > 0; --n) {
        const auto from = start_ms + pick(0, 6 * day - hour);
        p.script.push_back({from, deaths[random_() % std::size(deaths)]});
        p.script.push_back({std::min(healed_ms, from + pick(10 * minute, 3 * day)), conduct::live});
      }
    std::stable_sort(p.script.begin(), p.script.end(),
                     [](const auto& a, const auto& b) { return a.from_ms < b.from_ms; });
    auto& lies = conduct_[p.name];
    if (i % 3 != 0)
      for (auto n = pick(1, 3); n > 0; --n)
        lies.emplace_back(start_ms + pick(0, 6 * day), static_cast<honesty>(random_() % 5));
    lies.emplace_back(healed_ms, honesty::honest);
    std::stable_sort(lies.begin(), lies.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    outside_.add(std::move(p));
  }
}

std::pair<std::string, std::string> joins_run::event(const room_of_theirs& room, const std::string& type,
                                                     const json& content, const std::string& state_key,
                                                     const std::string& sender) {
  static const auto rules = *rules_of("10");
  const json bare{{"type", type},
                  {"room_id", room.id},
                  {"sender", sender},
                  {"state_key", state_key},
                  {"content", content},
                  {"origin_server_ts", outside_.wall_ms(start_ms)},
                  {"depth", 1},
                  {"prev_events", json::array({"$p"})},
                  {"auth_events", json::array()}};
  const auto server = server_of_user(sender);
  const auto sealed = sign_event(bare.dump(), rules, server, key_of(server, "ed25519:k1"));
  return {sealed.event_id, sealed.event};
}

void joins_run::make_rooms() {
  for (int i = 1; i <= 10; ++i) {
    room_of_theirs room;
    std::set<int> members;
    for (auto n = pick(3, 8); n > 0; --n)
      members.insert(int(pick(1, 14)));
    for (const auto number : members)
      room.servers.push_back("r" + std::to_string(number) + ".example.org");
    std::shuffle(room.servers.begin(), room.servers.end(), random_);
    room.via = room.servers.front();
    room.id = "!j" + std::to_string(i) + ":" + room.via;
    const auto creator = "@u:" + room.via;
    room.state.push_back(event(room, "m.room.create", {{"room_version", "10"}, {"creator", creator}}, "", creator));
    for (const auto& server : room.servers)
      room.state.push_back(event(room, "m.room.member", {{"membership", "join"}}, "@u:" + server, "@u:" + server));
    room.told = room.servers;
    if (room.told.size() > 2 && pick(1, 2) == 1) room.told.pop_back(); // the list isn't always whole
    if (pick(1, 3) == 1) room.told.push_back("r" + std::to_string(pick(1, 14)) + ".example.org");
    room.user = "@l" + std::to_string(pick(1, 4)) + ":" + our_name;
    room.joins_ms = start_ms + pick(minute, 5 * day);
    if (pick(1, 4) == 1) room.leaves_ms = room.joins_ms + pick(second, day);
    rooms_.push_back(std::move(room));
  }
}

http_answer joins_run::say(peer& p, const http_call& call) {
  http_answer out;
  const auto path = std::string_view(call.uri);
  const bool ids = path.find("/state_ids/") != std::string_view::npos,
             state = path.find("/state/") != std::string_view::npos,
             one = path.find("/event/") != std::string_view::npos;
  if (!ids && !state && !one) return out;
  honesty how = honesty::honest;
  for (const auto& [from, next] : conduct_[p.name])
    if (from <= now_ms_) how = next;
  out.request_sent = true;
  out.content_type = "application/json";
  out.status = how == honesty::refuses ? 403 : 200;
  json body = json::object();
  const auto forged = [&](const std::string& text) {
    auto event = json::parse(text);
    if (how == honesty::forges && event.contains("state_key")) event["content"]["membership"] = "ban";
    return event;
  };
  bool found = false;
  for (const auto& room : rooms_) {
    if (one) {
      for (const auto& [id, text] : room.state)
        if (path.find(percent_encode(id)) != std::string_view::npos) {
          found = true;
          body = {{"pdus", json::array({forged(text)})}, {"origin", p.name}, {"origin_server_ts", 1}};
        }
      continue;
    }
    if (path.find(percent_encode(room.id)) == std::string_view::npos) continue;
    found = std::find(room.servers.begin(), room.servers.end(), p.name) != room.servers.end();
    const auto count = how == honesty::half ? (room.state.size() + 1) / 2 : room.state.size();
    if (ids) {
      body = {{"pdu_ids", json::array()}, {"auth_chain_ids", json::array()}};
      for (const auto& [id, text] : room.state)
        body["pdu_ids"].push_back(id);
    } else {
      body = {{"pdus", json::array()}, {"auth_chain", json::array()}};
      for (std::size_t i = 0; i < count; ++i)
        body["pdus"].push_back(forged(room.state[i].second));
    }
  }
  if (!found || (how == honesty::half && one)) out.status = 404;
  out.body = shared_text(how == honesty::garbage ? std::string("[1, {") : body.dump());
  return out;
}

void joins_run::step_to(std::int64_t at_ms) {
  while (now_ms_ < at_ms) {
    const auto next = std::min(at_ms, (now_ms_ / hour + 1) * hour);
    now_ms_ = next; // for what the servers say meanwhile
    life_->time().advance_to(next);
    now_ms_ = std::max(next, life_->time().now_ms());
    std::erase_if(outside_.wanted_lists, [&](const auto& wanted) {
      auto& p = outside_.peers.at(wanted.first);
      if (!works(p.at(now_ms_))) return false;
      const auto list = life_->list_of(wanted.second);
      p.lists[wanted.second].take_list(list.known ? json::parse(list.json) : json::object());
      return true;
    });
    look();
  }
}

/// No partial join waits without a reason and a next moment.
void joins_run::look() {
  auto views = life_->joins();
  if (blind) blind(views);
  const auto wall = outside_.wall_ms(now_ms_);
  for (const auto& view : views) {
    ++samples;
    const auto room = view.value("room_id", "");
    if (view["servers"].empty()) outside_.breach("the partial join of " + room + " has nobody to ask");
    std::optional<std::int64_t> next;
    bool unasked = false;
    for (const auto& [server, one] : view["servers"].items()) {
      if (one["next_attempt_ms"].is_number())
        next = std::min(next.value_or(one["next_attempt_ms"].get<std::int64_t>()),
                        one["next_attempt_ms"].get<std::int64_t>());
      unasked = unasked || one["verdict"].is_null();
    }
    const bool ends = view.contains("abandoned_at_ms") && view["abandoned_at_ms"].is_number();
    if (!next && !unasked && !ends)
      outside_.breach("the partial join of " + room + " waits for nothing: " + view.dump());
    else if (next && !unasked && !ends && *next < wall - 30 * minute)
      outside_.breach("the partial join of " + room + " should have gone on " +
                      std::to_string((wall - *next) / minute) + " min ago: " + view.dump());
  }
}

void joins_run::join(room_of_theirs& room) {
  record_join what;
  what.room_id = room.id;
  what.room_version = "10";
  what.user_id = room.user;
  what.event_id = "$join-" + room.id;
  what.event = R"({"prev_events":["$p"]})";
  what.joined_via = room.via;
  what.members_omitted = true;
  what.servers_in_room = room.told;
  what.events = {{room.state.front().first, true, false, shared_text(room.state.front().second)}};
  auto answer = life_->join(std::move(what));
  if (pick(1, 4) == 1) return die(); // whether it was written or not: then it isn't there, or it goes on
  life_->time().drain();
  if (!*answer) return outside_.breach("a join wasn't written");
  room.joined_ms = now_ms_;
}

void joins_run::feed(const json& line) {
  auto answer = life_->feed({line.dump()});
  life_->time().drain();
  if (!*answer || !(*answer)->ok || !(*answer)->rejected.empty()) outside_.breach("the feed took no " + line.dump());
}

void joins_run::leave(const room_of_theirs& room) {
  feed({{"kind", "membership"}, {"room_id", room.id}, {"user_id", room.user}, {"membership", "leave"}});
}

void joins_run::change_device(const std::string& user) {
  const auto device = "D" + std::to_string(pick(1, 3)), key = "key" + std::to_string(pick(1, 3)),
             name = "name" + std::to_string(++serial_);
  feed({{"kind", "device"},
        {"user_id", user},
        {"device_id", device},
        {"keys", device_keys(user, device, key)},
        {"display_name", name}});
  devices_[user][device] = key + "/" + name;
  changed_ms_[user] = now_ms_;
}

void joins_run::die() {
  for (auto jobs = pick(0, 30); jobs > 0; --jobs)
    life_->time().scheduler().try_run_once();
  life_->kill();
  life_.reset();
  if (sabotage) sabotage(database_);
  const auto down_for = pick(1, 2) == 1 ? pick(1, 60) * second : pick(1, 300) * minute;
  outside_.killed(now_ms_, down_for);
  now_ms_ += down_for;
  ++restarts;
  life_ = std::make_unique<life>(outside_, settings_, database_, now_ms_);
}

void joins_run::go() {
  life_ = std::make_unique<life>(outside_, settings_, database_, now_ms_);
  std::vector<std::pair<std::int64_t, std::function<void()>>> script;
  for (auto& room : rooms_) {
    script.emplace_back(room.joins_ms, [this, &room] { join(room); });
    if (room.leaves_ms > 0) script.emplace_back(room.leaves_ms, [this, &room] { leave(room); });
  }
  for (int i = 1; i <= 4; ++i)
    for (auto at = start_ms + pick(minute, 4 * hour); at < healed_ms; at += pick(minute, 12 * hour))
      script.emplace_back(at, [this, i] { change_device("@l" + std::to_string(i) + ":" + our_name); });
  for (int i = 0; i < 10; ++i)
    script.emplace_back(start_ms + pick(minute, 6 * day), [this] { die(); });
  std::stable_sort(script.begin(), script.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [at, what] : script) {
    step_to(at);
    what();
  }
  step_to(healed_ms);
  while (now_ms_ < healed_ms + longest_healing_ms && !life_->joins().empty())
    step_to(now_ms_ + hour);
  waited_ms = std::size_t(now_ms_ - healed_ms);
  const auto waits = [this](const auto& one) {
    const auto owed = life_->owed(one.first, life_->row_of(one.first).at);
    return owed.pdus + owed.to_device + owed.device_lists > 0;
  };
  while (now_ms_ < healed_ms + longest_healing_ms && std::any_of(outside_.peers.begin(), outside_.peers.end(), waits))
    step_to(now_ms_ + hour);
  step_to(now_ms_ + 2 * hour);
  judge();
}

/// Each ended, and every server that was owed an update of a list has it.
void joins_run::judge() {
  for (const auto& view : life_->joins())
    outside_.breach("the partial join of " + view.value("room_id", "") + " doesn't end: " + view.dump());
  storage::database db(database_, storage::database::mode::read);
  const auto told = [&](const room_of_theirs& room, const std::string& state) {
    return db.integer("SELECT count(*) FROM stream WHERE kind = 'partial_join' AND json LIKE ? AND json LIKE ?",
                      "%\"" + room.id + "\"%", "%\"" + state + "\"%")
               .value_or(0) > 0;
  };
  for (const auto& room : rooms_) {
    const bool is_complete = told(room, "complete"), is_abandoned = told(room, "abandoned");
    complete += is_complete;
    abandoned += is_abandoned;
    left += room.leaves_ms > 0;
    const bool in = db.integer("SELECT 1 FROM member m JOIN room r ON r.id = m.room WHERE r.name = ? AND m.user = ? "
                               "AND m.membership = 'join'",
                               room.id, room.user)
                        .has_value();
    if (room.joined_ms > 0 && room.leaves_ms == 0 && !is_complete && !is_abandoned)
      outside_.breach("nobody was told how the partial join of " + room.id + " ended");
    if (in && !is_complete) outside_.breach("our user is in " + room.id + ", whose join never came to its end");
    if (!in || !is_complete || changed_ms_[room.user] <= room.joined_ms || room.joined_ms == 0) continue;
    for (const auto& server : room.servers) {
      const auto& list = outside_.peers.at(server).lists[room.user];
      ++lists;
      if (!list.held || list.stale || list.devices != devices_[room.user])
        outside_.breach(server + ", a member of " + room.id + ", doesn't have the list of " + room.user +
                            (list.held ? " as it is" : " at all"),
                        server);
    }
  }
}

void simulate_joins(std::uint64_t seed) {
  spdlog::set_level(spdlog::level::off);
  CAPTURE(seed);
  joins_run one(seed);
  one.go();
  MESSAGE("joins, seed ", seed, ": 10 joins over 14 servers in 6 days, ", one.restarts, " restarts; ", one.complete,
          " complete, ", one.abandoned, " abandoned, ", one.left, " left; ", one.samples,
          " looks at a join that was under way; the last ended ", one.waited_ms / minute, " min after all were well; ",
          one.lists, " device lists compared");
  for (const auto& breach : one.outside().breaches)
    FAIL_CHECK(breach.sentence);
  if (!one.outside().breaches.empty()) {
    joins_run again(seed); // the same in every step, and this time somebody looks
    again.outside().focus = {one.outside().breaches.front().server};
    again.go();
    for (const auto& breach : again.outside().breaches)
      MESSAGE("seed ", seed, ": ", breach.sentence, "\n", trace_of(again.outside(), breach, breach.at_ms, 40));
  }
  CHECK(one.complete > 0);
  CHECK(one.lists > 0);
}

} // namespace

TEST_CASE("simulation: joins, seed 1") { simulate_joins(1); }
TEST_CASE("simulation: joins, seed 2") { simulate_joins(2); }
TEST_CASE("simulation: joins, seed 3") { simulate_joins(3); }
TEST_CASE("simulation: joins, seed 4") { simulate_joins(4); }
TEST_CASE("simulation: joins, seed 5") { simulate_joins(5); }
TEST_CASE("simulation: joins, seed 6") { simulate_joins(6); }
TEST_CASE("simulation: joins, seed 7") { simulate_joins(7); }
TEST_CASE("simulation: joins, seed 8") { simulate_joins(8); }
TEST_CASE("simulation: joins, seed 138") { simulate_joins(138); }

/// bin/test --full.
TEST_CASE("simulation: more seeds of joins" * doctest::skip()) {
  for (std::uint64_t seed = 100; seed < 140; ++seed)
    simulate_joins(seed);
}

TEST_CASE("simulation's judges: a join that is forgotten at a restart is noticed") {
  spdlog::set_level(spdlog::level::off);
  joins_run broken(2);
  broken.sabotage = [](const std::string& path) {
    storage::database db(path, storage::database::mode::write);
    db.run("DELETE FROM partial_join");
  };
  broken.go();
  const auto& all = broken.outside().breaches;
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const auto& one) { return one.sentence.find("ended") != std::string::npos; }));
}

TEST_CASE("simulation's judges: a join that waits for nothing is noticed") {
  spdlog::set_level(spdlog::level::off);
  joins_run broken(2);
  broken.blind = [](json& views) {
    for (auto& view : views) {
      view.erase("abandoned_at_ms");
      for (auto& [server, one] : view["servers"].items())
        one = {{"verdict", "unreachable"}, {"next_attempt_ms", nullptr}};
    }
  };
  broken.go();
  const auto& all = broken.outside().breaches;
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const auto& one) { return one.sentence.find("waits for nothing") != std::string::npos; }));
}
