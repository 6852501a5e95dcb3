#pragma once
#include "messages/ids.hpp"
#include "messages/records.hpp"

#include <algorithm>
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
    if (!event_id.empty()) by_event_[event_id] = was == is ? change{{}, was} : happened;
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
      // Whom the event names by itself, or reaches beyond the room, gets it whatever else was missed.
      queues[name].push_back({what.room_id, what.event_id, by_room.contains(name) ? closed[name] : 0});
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
  /// All up to and with this event is delivered or let go; gives how many were let go.
  std::int64_t pass(const std::string& server, const std::string& through) {
    auto kept = owed(server);
    auto& queue = queues[server];
    std::int64_t let_go = 0;
    while (!queue.empty()) {
      auto first = queue.front();
      bool sent =
          std::any_of(kept.begin(), kept.end(), [&](const auto& one) { return one.event_id == first.event_id; });
      queue.erase(queue.begin());
      if (!sent) ++let_go;
      if (first.event_id == through) break;
    }
    return let_go;
  }

  std::map<std::string, std::vector<waiting>> queues;
  std::map<std::string, std::vector<std::string>> messages;
  std::map<std::string, int> closed;

private:
  struct change {
    std::set<std::string> servers;
    std::string was;
  };

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
