#pragma once
#include "messages/event.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

/// A room of version 10 as the demo's host or one of its servers has it: a single line of events, each signed by its
/// sender's server, with the state after each.
class demo_room {
public:
  /// `room_id` "!...:server". Its creator makes it and joins.
  demo_room(std::string room_id, std::string creator, const signing_key& key);

  const std::string& room_id() const { return room_id_; }
  const std::string& creator() const { return creator_; }
  struct made {
    std::string event_id;
    nlohmann::json event;
  };
  made message(const std::string& sender, const std::string& body, const signing_key& key);
  made join(const std::string& user, const signing_key& key);
  /// The feed's line for an event.
  static nlohmann::json line(const made& event);

private:
  using place = std::pair<std::string, std::string>; ///< type and state key
  made add(const std::string& sender, const std::string& type, const nlohmann::json& content,
           const std::string* state_key, const signing_key& key);
  std::vector<std::string> auth_for(const std::string& type, const std::string& sender,
                                    const std::string& target) const;
  void accept(const made& event);

  std::string room_id_, creator_;
  std::map<std::string, nlohmann::json> events_;
  std::map<std::string, std::map<place, std::string>> after_; ///< the state after each event
  std::map<place, std::string> state_;
  std::string head_;
  std::int64_t depth_ = 0;
};

} // namespace ranvier
