#pragma once
#include "bin/sink.hpp"
#include "messages/event.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

/// A room of version 10 as the demo's host or one of its servers has it: a single line of events, each signed by its
/// sender's server, with the state after each. Usable by several threads at a time.
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
  std::size_t members() const;

  /// As a server in the room answers: make_join, send_join (without the members where that is asked for; then with
  /// `servers`), state_ids, state and event. Nothing: the question isn't about this room.
  std::optional<sink_reply> answer(const sink_question& question, const std::vector<std::string>& servers);

private:
  using place = std::pair<std::string, std::string>; ///< type and state key
  sink_reply template_for(const std::string& user) const;
  sink_reply take_join(const std::string& event_id, const std::string& body, bool omit,
                       const std::vector<std::string>& servers);
  sink_reply state_at(const std::string& event_id, bool bodies) const;
  std::vector<std::string> chain_of(const std::vector<std::string>& ids) const;
  nlohmann::json bodies_of(const std::vector<std::string>& ids) const;
  made add(const std::string& sender, const std::string& type, const nlohmann::json& content,
           const std::string* state_key, const signing_key& key);
  std::vector<std::string> auth_for(const std::string& type, const std::string& sender,
                                    const std::string& target) const;
  void accept(const made& event);

  const std::string room_id_, creator_;
  mutable std::mutex mutex_; ///< guards all that follows
  std::map<std::string, nlohmann::json> events_;
  std::map<std::string, std::map<place, std::string>> after_; ///< the state after each event
  std::map<place, std::string> state_;
  std::string head_;
  std::int64_t depth_ = 0;
};

} // namespace ranvier
