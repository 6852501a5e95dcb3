#pragma once
#include "tests/simulation/devices.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ranvier::sim {

/// The server that we are.
inline const std::string our_name = "e.example.org";

/// One line of the feed, as the host means it. The model works from these alone; to_json() is what the engine gets.
struct feed_item {
  enum class what : std::uint8_t { message, member_event, to_device, roster, membership, typing, device, rejected };
  what is = what::message;
  std::string room, id;     ///< id: event or message id
  std::string sender, user; ///< user: state_key of a member event, the member of a membership line
  std::string membership;
  std::string key, name;     ///< device (of `sender`, called `id`): the text of its key, empty if it is deleted
  std::string line_event_id; ///< membership: event_id, empty if the host doesn't give it
  std::optional<std::set<std::string>> destinations;
  std::set<std::string> exclude;
  std::map<std::string, std::string> members; ///< roster
  std::set<std::string> recipients;           ///< to_device: remote users
  std::string raw;                            ///< rejected: the line itself
  std::int64_t at_ms = 0;                     ///< when the host has it to say
  std::uint64_t seq = 0;                      ///< of the host's source; 0: the line carries none

  std::string to_json() const;
};

std::string server_of_user(const std::string& user);

/// What each server must have, computed from the feed alone by the words of DESIGN section 4.
class model {
public:
  struct owed {
    std::size_t index = 0; ///< of the item in the feed
    std::string room, event;
    std::int64_t fed_ms = 0; ///< when the feed was answered
  };
  /// The same item fed again changes nothing: ids of events, messages and memberships are remembered (API section 3.1),
  /// and so is a source's last seq.
  void apply(const feed_item& item, std::int64_t fed_ms);

  /// Events that a server must have, in log order; and those that it may have, where the words leave it open.
  const std::vector<owed>& must(const std::string& server) { return must_[server]; }
  bool may(const std::string& server, const std::string& event) const;
  const std::set<std::string>& may(const std::string& server) { return may_[server]; } ///< those of must() too
  const std::set<std::string>& messages(const std::string& server) { return messages_[server]; }
  std::size_t place_of(const std::string& event) const { return places_.at(event); }
  bool knows(const std::string& event) const { return places_.count(event) > 0; }
  std::int64_t fed_ms(const std::string& event) const { return fed_.at(event); }
  /// Devices of a user of ours.
  const device_texts& devices(const std::string& user) { return devices_[user]; }
  const std::map<std::string, device_texts>& devices() const { return devices_; }
  /// Servers that share a room with users of ours now, and how often anybody began to.
  const std::set<std::pair<std::string, std::string>>& sharing() const { return sharing_; } ///< server, local user
  /// Of those, who was told something since it began: our user came into the room and had devices, or one changed.
  const std::set<std::pair<std::string, std::string>>& told() const { return told_; }
  std::size_t sharings_begun() const { return sharings_begun_; }
  const std::string& room_of(const std::string& event) const { return rooms_of_events_.at(event); }
  std::size_t items() const { return items_; }

  /// For the generator: who is in a room now.
  struct room {
    std::map<std::string, std::string> members;
    std::set<std::string> joined(bool local) const;
    std::string membership(const std::string& user) const;
  };
  const std::map<std::string, room>& rooms() const { return rooms_; }
  /// Servers that a room's events go to now: a member of theirs has joined, and one of ours.
  std::set<std::string> servers(const std::string& room_id) const;

private:
  struct change {
    std::set<std::string> servers_before;
    std::string before, after, event_id;
    bool claimed = false;
  };
  void change_member(const std::string& room_id, const std::string& user, const std::string& membership,
                     const std::string& event_id, bool by_line = false);
  void count_sharing(const std::string& room_id, const std::string& user, bool by_line);
  void change_device(const feed_item& item);
  void add_event(const feed_item& item, std::int64_t fed_ms);
  std::set<std::string> reached_by_member_event(const feed_item& item, std::set<std::string>& perhaps);

  std::map<std::string, room> rooms_;
  std::map<std::pair<std::string, std::string>, change> latest_; ///< room, user
  std::map<std::string, change> by_event_;
  std::map<std::string, std::vector<owed>> must_;
  std::map<std::string, std::set<std::string>> may_, messages_;
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_map<std::string, std::string> rooms_of_events_;
  std::unordered_map<std::string, std::int64_t> fed_;
  std::map<std::string, device_texts> devices_;
  std::map<std::string, std::set<std::string>> rooms_of_user_;          ///< where a user of ours is joined
  std::map<std::pair<std::string, std::string>, int> joined_of_server_; ///< room, server -> joined members
  std::set<std::pair<std::string, std::string>> sharing_, told_;
  std::size_t sharings_begun_ = 0;
  std::set<std::string> seen_, seen_memberships_;
  std::size_t items_ = 0;
  std::uint64_t last_seq_ = 0;
};

} // namespace ranvier::sim
