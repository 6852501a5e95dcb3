#pragma once
#include "messages/ids.hpp"
#include "messages/records.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ranvier::storage {

/// What each server must get, worked out from the feed alone, as naively as it can be: no positions, no spans. Every
/// event is judged when it comes and put into the list of each server that is owed it.
class feed_model {
public:
  explicit feed_model(std::size_t newest_kept)
      : newest_kept_(newest_kept) {}

  struct waiting {
    std::string room, event_id;
    int closing = 0; ///< number of the server's closing that it came in, 0: none
  };

  void membership(const std::string& room, const std::string& user, const std::string& is,
                  const std::string& event_id) {
    if (!event_id.empty() && !lines_.insert(event_id).second) return;
    known_.insert(room);
    auto& members = rooms_[room];
    auto was = members[user];
    if (was.empty()) was = "leave";
    bool ours = server_of(user) == "us.test";
    auto before = joined(room);
    bool had_us = we_are_in(room);
    members[user] = is;
    // "Just before": the servers of the room; it is our room if one of ours was there, or comes with this line.
    change happened{had_us || (ours && is == "join") ? before : std::set<std::string>(), was};
    happened.room = room;
    if (!event_id.empty()) by_event_[event_id] = was == is ? change{{}, was, room} : happened;
    if (was == is) return;
    unclaimed_[{room, user}] = event_id.empty() ? std::optional(happened) : std::nullopt;
  }

  void roster(const std::string& room, const std::map<std::string, std::string>& members) {
    known_.insert(room);
    // All at one moment: what each change had just before it is what the room had before the line.
    auto before = joined(room);
    bool had_us = we_are_in(room);
    auto old = rooms_[room];
    auto all = members;
    for (const auto& [user, is] : old)
      all.try_emplace(user, "leave");
    rooms_[room] = all;
    for (const auto& [user, is] : all) {
      auto was = old.contains(user) && !old[user].empty() ? old[user] : "leave";
      if (was != is) unclaimed_[{room, user}] = change{had_us ? before : std::set<std::string>(), was};
    }
  }

  void event(const pdu_record& what) {
    if (!known_.contains(what.room_id) && !what.destinations) return;
    if (!events_.insert(what.event_id).second) return;
    std::set<std::string> to;
    const auto partly = parting(what);
    const auto by_room = we_are_in(what.room_id) && !what.destinations ? joined(what.room_id) : std::set<std::string>();
    if (what.destinations) {
      to.insert(what.destinations->begin(), what.destinations->end());
    } else {
      if (we_are_in(what.room_id)) to = joined(what.room_id);
      if (what.state_key) member_event(what, to);
    }
    to.erase("us.test");
    for (const auto& name : what.exclude)
      to.erase(name);
    for (const auto& name : to)
      // Whom the event names by itself, or reaches beyond the room, gets it whatever else was missed; and so does whom
      // it parts from the room.
      queues[name].push_back(
          {what.room_id, what.event_id, by_room.contains(name) && !partly.contains(name) ? closed[name] : 0});
  }

  /// What is owed of the room stays owed, or is let go at once. What was said before is no member's change any more.
  void forget(const std::string& room, bool now) {
    known_.erase(room);
    rooms_.erase(room);
    std::erase_if(unclaimed_, [&](const auto& one) { return one.first.first == room; });
    std::erase_if(by_event_, [&](const auto& one) { return one.second.room == room; });
    if (!now) return;
    for (auto& [server, queue] : queues)
      let_go[server] +=
          static_cast<std::int64_t>(std::erase_if(queue, [&](const waiting& one) { return one.room == room; }));
  }

  void message(const std::string& id, const std::set<std::string>& servers) {
    if (!messages_.insert(id).second) return;
    for (const auto& name : servers)
      messages[name].push_back(id);
  }

  void close(const std::string& server) {
    if (closed[server] == 0) closed[server] = ++closings_;
  }
  void open(const std::string& server) { closed[server] = 0; }

  /// What is to be sent: of each room and closing the newest few only.
  std::vector<waiting> owed(const std::string& server) {
    std::vector<waiting> out;
    std::map<std::pair<std::string, int>, std::size_t> seen;
    auto& queue = queues[server];
    for (auto at = queue.rbegin(); at != queue.rend(); ++at)
      if (at->closing == 0 || seen[{at->room, at->closing}]++ < newest_kept_) out.push_back(*at);
    std::reverse(out.begin(), out.end());
    return out;
  }
  /// These were delivered, those were let go.
  void pass(const std::string& server, const std::set<std::string>& sent, const std::set<std::string>& lost) {
    std::erase_if(queues[server], [&](const waiting& one) {
      const bool is_lost = lost.contains(one.event_id);
      if (is_lost) ++let_go[server];
      return is_lost || sent.contains(one.event_id);
    });
  }
  std::map<std::string, std::vector<waiting>> queues;
  std::map<std::string, std::vector<std::string>> messages;
  std::map<std::string, int> closed;
  std::map<std::string, std::int64_t> let_go; ///< of each server, so far

private:
  struct change {
    std::set<std::string> servers;
    std::string was, room = {};
  };

  /// Servers that are in the room no more if this leave or ban is what it says, told before the roster says so.
  std::set<std::string> parting(const pdu_record& what) {
    if (what.destinations || !what.state_key || what.membership == "join" || !we_are_in(what.room_id)) return {};
    auto& user = rooms_[what.room_id][*what.state_key];
    if (user != "join") return {};
    auto before = joined(what.room_id);
    user = "leave";
    auto after = we_are_in(what.room_id) ? joined(what.room_id) : std::set<std::string>();
    user = "join";
    std::set<std::string> gone;
    std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::inserter(gone, gone.end()));
    return gone;
  }

  std::set<std::string> joined(const std::string& room) {
    std::set<std::string> out;
    for (const auto& [user, is] : rooms_[room])
      if (is == "join" && server_of(user) != "us.test") out.emplace(server_of(user));
    return out;
  }
  bool we_are_in(const std::string& room) {
    for (const auto& [user, is] : rooms_[room])
      if (is == "join" && server_of(user) == "us.test") return true;
    return false;
  }
  void member_event(const pdu_record& what, std::set<std::string>& to) {
    auto& members = rooms_[what.room_id];
    auto was = members.contains(*what.state_key) ? members[*what.state_key] : "";
    auto& unclaimed = unclaimed_[{what.room_id, *what.state_key}];
    std::optional<change> line;
    if (auto found = by_event_.find(what.event_id); found != by_event_.end()) {
      line = found->second;
    } else if (unclaimed && was == what.membership && what.membership != "join") {
      line = unclaimed;
      unclaimed.reset();
    }
    if (line) {
      was = line->was;
      to.insert(line->servers.begin(), line->servers.end());
    }
    if (was == "join" || was == "invite" || was == "knock") to.emplace(server_of(*what.state_key));
    if (what.membership == "join" && !we_are_in(what.room_id)) to.merge(joined(what.room_id));
  }

  std::size_t newest_kept_;
  int closings_ = 0;
  std::set<std::string> known_, events_, lines_, messages_;
  std::map<std::string, std::map<std::string, std::string>> rooms_;
  std::map<std::string, change> by_event_;
  std::map<std::pair<std::string, std::string>, std::optional<change>> unclaimed_;
};

} // namespace ranvier::storage
