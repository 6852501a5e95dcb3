#include "list_peer.hpp"
#include "storage/own_list_page.hpp"

#include <cstdlib>
#include <random>

using namespace ranvier;
using namespace ranvier::storage;

namespace {

/// How a server takes its updates.
struct habits {
  std::string name;
  bool always_up = false;   ///< takes everything at once, small pages or large, and acknowledges it durably
  bool never_fails = false; ///< takes what it is given, in any order and late, and nothing that it takes is forgotten
  bool keeps_lists = false; ///< trusts a list that it held before sharing ended, against L14
};

/// The sending side's memory of one server, as a destination has it, and the server itself.
struct link_to {
  habits how;
  list_peer peer;
  position cursor = 0, durable = 0;
  std::map<std::string, position> sent;
  std::optional<device_updates> in_flight;
  std::map<std::string, int> stretches;       ///< user -> how often sharing began
  std::map<std::string, position> fetched_at; ///< what stood in the log when it fetched last
  std::map<std::string, int> needless;
  std::map<std::string, position> since;
  std::set<std::string> sharing;
};

/// One random history: devices change, users and servers come and go, servers fail, we restart and clean up. In the end
/// every list that a server holds of a user with whom it shares a room equals ours.
class history {
public:
  history(unsigned seed, list_bench& bench)
      : random_(seed)
      , quiet_loads_(seed % 2 == 0)
      , mark_(std::to_string(seed))
      , bench_(bench) {
    for (auto [name, up, sure, keeps] : {std::tuple{"up", true, true, false},
                                         {"slow", false, true, false},
                                         {"down", false, false, false},
                                         {"odd", false, false, true}}) {
      links_.emplace_back();
      links_.back().how = {name + mark_ + ".test", up, sure, keeps};
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      for (auto& one : links_) {
        watch(one);
        if (one.how.always_up) drain(one);
      }
    }
    // What was loaded without being told is noticed at the next change.
    for (unsigned i = 0; i < 3; ++i)
      bench_.feed(line_of(device_line("@u" + std::to_string(i) + "-" + mark_ + ":us.test", "D9", "end")));
    for (auto& one : links_) {
      deliver_in_flight(one, true);
      drain(one);
      compare(one);
    }
  }

private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  std::string user() { return "@u" + std::to_string(below(3)) + "-" + mark_ + ":us.test"; }
  std::string device() { return "D" + std::to_string(below(4)); }
  std::string room() { return "!" + std::to_string(below(3)) + "-" + mark_ + ":us.test"; }
  std::string remote(const link_to& one) { return "@r:" + one.how.name; }
  link_to& any() { return links_[below(static_cast<unsigned>(links_.size()))]; }

  void step() {
    auto what = below(100);
    if (what < 30) change_device();
    else if (what < 36) bench_.feed(line_of(signing_line(user(), "M" + std::to_string(below(3)))));
    else if (what < 48) bench_.feed(member_line(room(), user(), below(3) == 0 ? "leave" : "join"));
    else if (what < 56) bench_.feed(member_line(room(), remote(any()), below(3) == 0 ? "leave" : "join"));
    else if (what < 60) replace_roster();
    else if (what < 84) deliver(any());
    else if (what < 88) pass_time();
    else if (what < 95) bench_.write([&](writer& to, auto&) { to.devices.tidy(bench_.now_ms); });
    else if (what < 97) restart();
    else burst();
  }
  void change_device() {
    auto who = user(), which = device();
    auto what = below(10);
    auto line = what < 2   ? deletion_line(who, which)
                : what < 4 ? rename_line(who, which, "n" + std::to_string(below(3)))
                           : device_line(who, which, "k" + std::to_string(++count_));
    line.initial = quiet_loads_ && below(30) == 0;
    if (line.initial) ++silent_;
    bench_.feed(line_of(line));
  }
  void burst() {
    settle();
    auto who = user(), which = device();
    for (int i = 0; i < 70; ++i)
      bench_.feed(line_of(device_line(who, which, "k" + std::to_string(++count_))));
  }
  void replace_roster() {
    std::vector<std::string> users;
    for (unsigned i = 0; i < 3; ++i)
      if (below(2) == 0) users.push_back("@u" + std::to_string(i) + "-" + mark_ + ":us.test");
    for (auto& one : links_)
      if (below(2) == 0) users.push_back(remote(one));
    bench_.feed(line_of(roster_line(room(), users)));
  }
  void pass_time() {
    settle();
    bench_.now_ms += std::vector{1'000, 130'000, 86'400'000}[below(3)] * (below(8) == 0 ? 20LL : 1LL);
  }
  /// Before months pass, or a burst that nobody can keep up with, whoever never fails is told everything.
  void settle() {
    for (auto& one : links_)
      if (one.how.never_fails) {
        deliver_in_flight(one, true);
        drain(one);
      }
  }
  void restart() {
    bench_.reopen();
    for (auto& one : links_) {
      if (one.how.never_fails) continue;
      one.cursor = one.durable;
      one.sent.clear();
      one.in_flight.reset();
    }
  }

  /// What the server's own roster tells it: lists aren't trusted any longer than a room is shared.
  void watch(link_to& one) {
    std::set<std::string> now;
    for (unsigned i = 0; i < 3; ++i) {
      auto who = "@u" + std::to_string(i) + "-" + mark_ + ":us.test";
      if (bench_.reader->integer("SELECT 1 FROM member m JOIN span s ON s.room = m.room AND s.until > 1000000000000 "
                                 "JOIN server n ON n.id = s.server WHERE m.server = 1 AND m.membership = 'join' "
                                 "AND m.user = ? AND n.name = ? LIMIT 1",
                                 who, one.how.name))
        now.insert(who);
    }
    const auto server = bench_.reader->integer("SELECT id FROM server WHERE name = ?", one.how.name).value_or(0);
    for (const auto& who : now) {
      // One room in place of another counts as a new stretch: only the rooms that are shared now are looked at.
      const auto since = sharing_since(*bench_.reader, who, server).value_or(0);
      if (!one.sharing.contains(who) || since > one.since[who]) ++one.stretches[who];
      one.since[who] = since;
    }
    for (const auto& who : one.sharing)
      if (!now.contains(who) && !one.how.keeps_lists) one.peer.lists.erase(who);
    one.sharing = std::move(now);
  }

  read_device_updates question(link_to& one) {
    auto ask = bench_.question(one.how.name);
    one.durable = std::max(one.durable, ask.after);
    one.cursor = std::max(one.cursor, one.durable);
    ask.after = one.cursor;
    ask.sent = one.sent;
    ask.max_edus = 1 + below(4);
    if (below(3) == 0) ask.max_edus = 100;
    return ask;
  }
  void deliver(link_to& one) {
    if (one.how.always_up) return;
    if (one.in_flight) return deliver_in_flight(one, false);
    auto ask = question(one);
    if (below(3) == 0) ask.throttled.push_back(user());
    if (below(3) == 0) ask.first.push_back(user());
    if (below(4) == 0) ask.shares_before_ms = bench_.now_ms - 1'000;
    one.in_flight = check(ask, bench_.page(ask));
    if (below(2) == 0) deliver_in_flight(one, false);
  }
  void deliver_in_flight(link_to& one, bool surely) {
    if (!one.in_flight || (!surely && below(3) == 0)) return;
    auto page = std::move(*one.in_flight);
    one.in_flight.reset();
    one.peer.take(page.list, [&](const std::string& who) {
      // After a fetch only what stood in the log by then may make it fetch again.
      if (auto before = one.fetched_at.find(who);
          before != one.fetched_at.end() && one.peer.gap_at[who] > before->second)
        ++one.needless[who];
      one.fetched_at[who] = bench_.head();
      return bench_.lists().list(who).json;
    });
    // L13: what is said of users who share no room isn't kept.
    if (!one.how.keeps_lists)
      std::erase_if(one.peer.lists, [&](const auto& l) { return !one.sharing.contains(l.first); });
    one.cursor = std::max(one.cursor, page.through);
    for (const auto& update : page.list)
      if (update.through > one.cursor) one.sent[update.user] = std::max(one.sent[update.user], update.through);
    std::erase_if(one.sent, [&](const auto& s) { return s.second <= one.cursor; });
    if (one.how.never_fails || below(2) == 0) acknowledge(one);
  }
  void acknowledge(link_to& one) {
    if (one.cursor == one.durable) return;
    one.durable = one.cursor;
    bench_.acknowledge(one.how.name, one.durable);
  }
  device_updates check(const read_device_updates& ask, device_updates page) {
    CHECK(page.list.size() <= ask.max_edus + 50);
    CHECK(page.through >= ask.after);
    std::map<std::string, std::int64_t> last;
    for (const auto& one : page.list) {
      auto told = read_update(one.edu);
      if (told.signing) continue;
      // B46: strictly rising, chained.
      auto [found, fresh] = last.try_emplace(told.user, told.stream_id);
      if (!fresh) {
        CHECK(told.stream_id > found->second);
        CHECK(told.prev == std::vector{found->second});
        found->second = told.stream_id;
      }
      for (auto id : told.prev)
        CHECK(id < told.stream_id);
    }
    return page;
  }
  void drain(link_to& one) {
    for (int i = 0; i < 1'000; ++i) {
      auto ask = question(one);
      one.in_flight = check(ask, bench_.page(ask));
      const bool over = one.in_flight->list.empty();
      const bool more = one.in_flight->more;
      if (over) CHECK(one.in_flight->through == ask.upto);
      deliver_in_flight(one, true);
      acknowledge(one);
      if (over) CHECK_FALSE(more);
      if (over) return;
    }
    FAIL("the pages have no end");
  }

  void compare(link_to& one) {
    for (const auto& who : one.sharing) {
      CAPTURE(who);
      CAPTURE(one.how.name);
      auto ours = list_peer::read_list(bench_.lists().list(who).json);
      auto held = one.peer.lists.find(who);
      if (held != one.peer.lists.end()) {
        CHECK(held->second.devices == ours.devices);
        if (!one.how.keeps_lists) CHECK(held->second.master_key == ours.master_key);
      }
      // Somebody who is always there fetches once when sharing begins, and again only after changes that were
      // loaded without being told.
      if (one.how.always_up) CHECK(one.peer.fetches[who] <= one.stretches[who] + silent_);
      if (one.how.never_fails) CHECK(one.needless[who] <= one.stretches[who] - 1 + silent_);
    }
  }

  std::mt19937 random_;
  const bool quiet_loads_; ///< devices are loaded without being told now and then
  std::string mark_;
  list_bench& bench_;
  std::vector<link_to> links_;
  int count_ = 0, silent_ = 0;
};

} // namespace

TEST_CASE("random histories of device lists: what a server holds in the end is true") {
  const auto* wanted = std::getenv("RANVIER_SEED");
  const unsigned first = wanted ? static_cast<unsigned>(std::stoul(wanted)) : 1, runs = wanted ? 1 : 40;
  list_bench bench;
  for (unsigned seed = first; seed < first + runs; ++seed) {
    CAPTURE(seed);
    history(seed, bench).run(150);
  }
}
