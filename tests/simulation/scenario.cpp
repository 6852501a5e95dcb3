#include "tests/simulation/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace ranvier::sim {

namespace {

class generator {
public:
  generator(const scenario_plan& plan, world& outside, std::int64_t start_ms)
      : plan_(plan)
      , outside_(outside)
      , start_ms_(start_ms)
      , random_(plan.seed * 7'919 + 17)
      , device_random_(plan.seed * 104'729 + 5) {}

  scenario make() {
    out_.plan = plan_;
    out_.healed_ms = start_ms_ + plan_.length_ms;
    make_bad_times();
    make_peers();
    make_rosters();
    make_traffic();
    send_host_away();
    make_kills();
    make_changes();
    std::sort(out_.inbound.begin(), out_.inbound.end(), [](const auto& a, const auto& b) { return a.at_ms < b.at_ms; });
    return std::move(out_);
  }

private:
  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  /// Of devices: drawn from numbers of their own, so that the rest of a seed's story is what it was without them.
  std::int64_t draw(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(device_random_);
  }
  template <class C> auto any_of(const C& from) {
    return *std::next(from.begin(), pick(0, static_cast<std::int64_t>(from.size()) - 1));
  }
  std::int64_t any_time() { return start_ms_ + pick(minute, plan_.length_ms - minute); }
  std::string local_user() { return "@l" + std::to_string(pick(1, plan_.local_users)) + ":" + our_name; }
  std::string remote_user() { return "@u" + std::to_string(pick(1, plan_.users_per_peer)) + ":" + any_of(names_); }
  std::string any_room() { return "!room" + std::to_string(pick(1, plan_.rooms)) + ":" + our_name; }
  std::string new_event() { return "$event" + std::to_string(++ids_); }

  // --- peers

  void outage(peer& p, conduct how, std::int64_t from_ms, std::int64_t length_ms) {
    p.script.push_back({from_ms, how});
    p.script.push_back({std::min(from_ms + length_ms, out_.healed_ms), conduct::live});
  }

  /// A day in which a part of all requests fails, whatever the peer.
  void make_bad_times() {
    if (plan_.failing_percent > 0)
      outside_.bad =
          bad_times{start_ms_ + plan_.length_ms / 4, start_ms_ + plan_.length_ms / 4 + day, plan_.failing_percent};
  }

  void speaks(const peer& p, std::int64_t at_ms, bool is_back = false) {
    out_.inbound.push_back({at_ms, p.name, is_back});
  }

  void make_peers() {
    for (int i = 1; i <= plan_.peers; ++i) {
      peer p;
      p.name = "r" + std::to_string(i) + ".example.org";
      names_.push_back(p.name);
      p.told_wait_ms = pick(1, 600) * second;
      p.always_well = false;
      shape(p, i % 10);
      std::stable_sort(p.script.begin(), p.script.end(),
                       [](const auto& a, const auto& b) { return a.from_ms < b.from_ms; });
      if (i % 10 == 6) come_back_with_a_new_key(p);
      if (i % 10 < 4 && pick(1, 100) <= plan_.tarpits * 10 / 4) tarpit(p);
      if (plan_.uplink_outage) add_uplink_outage(p);
      if (plan_.failing_percent > 0) p.always_well = false;
      outside_.add(std::move(p));
    }
  }

  void shape(peer& p, int kind) {
    if (kind < 4) {
      p.always_well = true;
      p.latency_ms = pick(5, 400);
    } else if (kind == 4) { // slow, sometimes beyond the timeout
      p.latency_ms = pick(1, 45) * second;
    } else if (kind < 7) {
      const conduct deaths[] = {conduct::no_name, conduct::refusing, conduct::unreachable, conduct::bad_certificate,
                                conduct::silent};
      for (auto n = pick(1, 3); n > 0; --n)
        outage(p, deaths[random_() % 5], any_time(), pick(10, 2'000) * minute);
    } else if (kind == 7) {
      const conduct lies[] = {conduct::broken, conduct::limiting, conduct::parked, conduct::page, conduct::odd};
      for (int n = 0; n < 4; ++n)
        outage(p, lies[random_() % 5], any_time(), pick(5, 600) * minute);
    } else if (kind == 8) {
      outage(p, conduct::deaf, any_time(), pick(1, 300) * minute);
    } else { // dead for nearly all of it, but it speaks: a one-way link
      outage(p, conduct::unreachable, start_ms_ + pick(10 * minute, hour), plan_.length_ms);
      speaks(p, start_ms_ + 5 * second);
      const auto every = pick(60, 3'600) * second;
      for (auto at = start_ms_ + hour; at < out_.healed_ms; at += every)
        speaks(p, at);
    }
  }

  /// Dead for a day or two, back with another signing key, and it says so: our own gate mustn't lock it out.
  void come_back_with_a_new_key(peer& p) {
    const auto from = start_ms_ + pick(minute, plan_.length_ms / 3), back = from + pick(day / 2, 2 * day);
    if (back + hour > out_.healed_ms) return;
    p.script.clear();
    outage(p, chance(50) ? conduct::refusing : conduct::unreachable, from, back - from);
    p.new_keys_ms.push_back(back - hour);
    speaks(p, start_ms_ + 5 * second);
    for (int n = 0; n < 10; ++n)
      speaks(p, back + second + n * minute, n == 0);
  }

  /// Takes what it gets and lets the request hang, for two days in the middle.
  void tarpit(peer& p) {
    p.always_well = false;
    outage(p, chance(50) ? conduct::silent : conduct::unreachable, start_ms_ + plan_.length_ms / 3, 2 * day);
  }

  /// Half an hour in which nobody can be reached: our own fault.
  void add_uplink_outage(peer& p) {
    const auto from = start_ms_ + plan_.length_ms / 2, to = from + 30 * minute;
    const auto after = p.at(to);
    std::erase_if(p.script, [&](const phase& one) { return one.from_ms >= from && one.from_ms <= to; });
    p.script.push_back({from, conduct::unreachable});
    p.script.push_back({to, after});
    std::stable_sort(p.script.begin(), p.script.end(),
                     [](const auto& a, const auto& b) { return a.from_ms < b.from_ms; });
    p.always_well = false;
  }

  // --- the feed

  void say(feed_item item) {
    item.at_ms = now_ms_;
    if (plan_.sources) item.seq = ++seq_;
    state_.apply(item, now_ms_);
    batch_.push_back(std::move(item));
  }
  void end_batch() {
    if (!batch_.empty()) out_.feed.push_back({now_ms_, std::exchange(batch_, {}), false});
  }

  void make_rosters() {
    now_ms_ = start_ms_ + second;
    for (int i = 1; i <= plan_.rooms; ++i) {
      feed_item item;
      item.is = feed_item::what::roster;
      item.room = "!room" + std::to_string(i) + ":" + our_name;
      for (int n = 0; n < pick(1, 4); ++n)
        item.members[local_user()] = "join";
      const auto size = pick(1, i % 5 == 0 ? 40 : 8);
      for (int n = 0; n < size; ++n)
        item.members[remote_user()] = chance(90) ? "join" : "invite";
      say(std::move(item));
    }
    end_batch();
  }

  void make_traffic() {
    int left = plan_.records;
    const double mean = static_cast<double>(plan_.length_ms - hour) / plan_.records * 5; // a batch has five on average
    while (left > 0 && now_ms_ < out_.healed_ms - hour) {
      now_ms_ += std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::exponential_distribution<double>(1.0 / mean)(random_)));
      if (chance(1)) busy_room(left);
      if (chance(1)) kick_and_talk(left);
      for (auto n = pick(1, 5); n > 0; --n, --left)
        one_thing();
      if (draw(1, 100) <= plan_.device_percent) devices_of_ours();
      end_batch();
    }
  }

  /// More than catch-up keeps of a room.
  void busy_room(int& left) {
    const auto room = any_room();
    for (int n = 0; n < 120 && left > 0; ++n, --left)
      message(room);
  }

  /// A server's last member is kicked, and then the room goes on without it: it must get the kick, and no more.
  void kick_and_talk(int& left) {
    const auto room = any_room();
    const auto& r = state_.rooms().at(room);
    const auto locals = r.joined(true), remotes = r.joined(false);
    if (locals.empty() || remotes.empty()) return;
    const auto server = server_of_user(any_of(remotes));
    const auto who = any_of(locals);
    for (const auto& user : remotes)
      if (server_of_user(user) == server) ours(room, who, user, "leave");
    for (int n = 0; n < 80 && left > 0; ++n, --left)
      message(room);
  }

  void message(const std::string& room) {
    const auto& r = state_.rooms().at(room);
    const auto locals = r.joined(true);
    feed_item item;
    item.room = room;
    item.id = new_event();
    item.sender = locals.empty() ? local_user() : any_of(locals);
    if (chance(2)) item.destinations = std::set<std::string>{any_of(names_), any_of(names_)};
    if (chance(2)) item.exclude = {any_of(names_), any_of(names_)};
    say(std::move(item));
  }

  void to_device() {
    feed_item item;
    item.is = feed_item::what::to_device;
    item.id = "m" + std::to_string(++ids_);
    item.sender = local_user();
    for (auto n = pick(1, 4); n > 0; --n)
      item.recipients.insert(remote_user());
    say(std::move(item));
  }

  /// A user of ours logs in, renames, uploads new keys or logs out; now and then many times over.
  void devices_of_ours() {
    feed_item item;
    item.is = feed_item::what::device;
    item.sender = "@l" + std::to_string(draw(1, plan_.local_users)) + ":" + our_name;
    for (auto n = draw(1, 10) == 1 ? draw(5, 30) : 1; n > 0; --n) {
      item.id = "D" + std::to_string(draw(1, 4));
      item.key = draw(1, 4) == 1 ? "" : "key" + std::to_string(draw(1, 3));
      item.name = "name" + std::to_string(draw(1, 1'000'000));
      say(item);
    }
  }

  void line(const std::string& room, const std::string& user, const std::string& membership, const std::string& id) {
    feed_item item;
    item.is = feed_item::what::membership;
    item.room = room;
    item.user = user;
    item.membership = membership;
    item.line_event_id = id;
    say(std::move(item));
  }

  /// A member event of ours with its line, in either order, the line with or without the event's id.
  void ours(const std::string& room, const std::string& sender, const std::string& user,
            const std::string& membership) {
    feed_item item;
    item.is = feed_item::what::member_event;
    item.room = room;
    item.id = new_event();
    item.sender = sender;
    item.user = user;
    item.membership = membership;
    const auto id = chance(70) ? item.id : std::string{};
    if (chance(50)) {
      say(item);
      line(room, user, membership, id);
    } else {
      line(room, user, membership, id);
      say(item);
    }
    if (chance(30)) message(room);
  }

  void membership_of_theirs(const std::string& room) {
    const auto user = remote_user();
    const auto now = state_.rooms().at(room).membership(user);
    const std::string id = chance(50) ? "$theirs" + std::to_string(++ids_) : "";
    if (now == "join" && chance(50)) line(room, user, "leave", id);
    else if (now != "ban" && now != "join") line(room, user, "join", id);
  }

  void membership_of_ours(const std::string& room) {
    const auto& r = state_.rooms().at(room);
    const auto locals = r.joined(true), remotes = r.joined(false);
    if (locals.empty() || chance(25)) {
      const auto user = local_user();
      if (r.membership(user) != "join") ours(room, user, user, "join");
      return;
    }
    const auto who = any_of(locals);
    if (chance(20)) {
      ours(room, who, who, "leave");
    } else if (!remotes.empty() && chance(50)) {
      ours(room, who, any_of(remotes), chance(70) ? "leave" : "ban"); // a kick
    } else {
      const auto guest = remote_user();
      const auto now = r.membership(guest);
      if (now == "invite") ours(room, who, guest, "leave"); // the invitation is taken back
      else if (now == "leave") ours(room, who, guest, "invite");
    }
  }

  /// The host repairs a roster: it is what it is, but for a change or two that no line told.
  void repair(const std::string& room) {
    feed_item item;
    item.is = feed_item::what::roster;
    item.room = room;
    item.members = state_.rooms().at(room).members;
    std::erase_if(item.members, [](const auto& m) { return m.second == "leave"; });
    if (chance(50)) item.members[remote_user()] = "join";
    if (chance(50) && !item.members.empty()) item.members.erase(any_of(item.members).first);
    say(std::move(item));
  }

  void nonsense() { // its seq, if it had one, would count as seen: it has none
    feed_item item;
    item.is = feed_item::what::rejected;
    const char* lines[] = {
        "not json", "[]", R"({"kind":"unheard of"})", R"({"kind":"pdu","event_id":"$x","event":{}})",
        R"({"kind":"membership","room_id":"!room1:e.example.org","user_id":"nobody","membership":"join"})"};
    item.raw = lines[random_() % 5];
    say(std::move(item));
  }

  void one_thing() {
    const auto room = any_room();
    const auto dice = pick(1, 100);
    if (dice <= 60) {
      message(room);
    } else if (dice <= 75) {
      to_device();
    } else if (dice <= 86) {
      membership_of_theirs(room);
    } else if (dice <= 92) {
      membership_of_ours(room);
    } else if (dice <= 97) {
      const auto locals = state_.rooms().at(room).joined(true);
      feed_item item;
      item.is = feed_item::what::typing;
      item.room = room;
      item.sender = locals.empty() ? local_user() : any_of(locals);
      say(std::move(item));
    } else if (dice <= 98) {
      repair(room);
    } else {
      nonsense();
    }
  }

  /// What the host would say in a day comes at its end, after everything else once more.
  void send_host_away() {
    if (!plan_.host_away) return;
    const auto from = start_ms_ + plan_.length_ms / 2, to = from + day;
    bool first = true;
    for (auto& batch : out_.feed) {
      if (batch.at_ms < from || batch.at_ms > to) continue;
      batch.at_ms = to;
      batch.all_again = std::exchange(first, false);
    }
  }

  /// Their users do so too; what tells us may be lost or come out of order, but the last word of each user comes.
  void make_changes() {
    using fate = change_plan::fate;
    for (const auto& server : names_) {
      std::set<std::string> users;
      for (auto n = plan_.changes_per_peer > 0 ? draw(0, plan_.changes_per_peer) : 0; n > 0; --n) {
        const auto user = "@u" + std::to_string(draw(1, plan_.users_per_peer)) + ":" + server;
        const auto dice = draw(1, 10);
        change(server, user, start_ms_ + draw(minute, plan_.length_ms - minute),
               dice <= 2   ? fate::lost
               : dice <= 4 ? fate::late
                           : fate::told);
        users.insert(user);
      }
      for (const auto& user : users)
        change(server, user, out_.healed_ms + draw(second, 10 * minute), fate::told);
    }
    std::stable_sort(out_.changes.begin(), out_.changes.end(),
                     [](const auto& a, const auto& b) { return a.at_ms < b.at_ms; });
  }

  void change(const std::string& server, const std::string& user, std::int64_t at_ms, change_plan::fate is) {
    out_.changes.push_back({at_ms, server, user, "D" + std::to_string(draw(1, 3)),
                            draw(1, 5) == 1 ? "" : "key" + std::to_string(draw(1, 3)),
                            "name" + std::to_string(draw(1, 1'000'000)), is});
  }

  void make_kills() {
    for (int i = 0; i < plan_.kills; ++i) {
      kill_plan k{any_time(), chance(70) ? pick(500, 30'000) : pick(1, 240) * minute, 0, loss::none};
      if (chance(20)) k.wall_jump_ms = pick(-30, 30) * hour;
      out_.kills.push_back(k);
    }
    if (plan_.database != loss::none) {
      const auto at = start_ms_ + plan_.length_ms * pick(55, 70) / 100;
      out_.kills.push_back({at, pick(1, 30) * minute, 0, plan_.database});
      if (plan_.database == loss::restored) out_.backup_ms = at - pick(2, 12) * hour;
    }
    std::sort(out_.kills.begin(), out_.kills.end(), [](const auto& a, const auto& b) { return a.at_ms < b.at_ms; });
  }

  scenario_plan plan_;
  world& outside_;
  std::int64_t start_ms_, now_ms_ = 0;
  std::mt19937_64 random_, device_random_;
  scenario out_;
  model state_;
  std::vector<std::string> names_;
  std::vector<feed_item> batch_;
  std::uint64_t ids_ = 0, seq_ = 0;
};

} // namespace

scenario make_scenario(const scenario_plan& plan, world& outside, std::int64_t start_ms) {
  return generator(plan, outside, start_ms).make();
}

} // namespace ranvier::sim
