#pragma once
#include "bin/sink.hpp"
#include "bin/socket_held.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// What a server of the demo got, in the order in which it came.
struct demo_received {
  std::vector<std::string> events;    ///< ids, those that it refused included; each once
  std::set<std::string> refused;      ///< of these
  std::vector<std::string> to_device; ///< message ids
  std::vector<std::string> own_lists; ///< device ids of m.device_list_update
  std::int64_t transactions = 0, failed = 0;
};

/// A homeserver of the demo: a sink that can go away and come back at the same address, with what it got so far.
class demo_server {
public:
  demo_server(std::string name, std::string address, sink_behaviour behaviour, own_certificate certificate);

  const std::string& name() const { return options_.name; }
  std::string address() const { return host_ + ':' + std::to_string(port_); }
  std::string user(const std::string& localpart) const { return '@' + localpart + ':' + name(); }
  const signing_key& key() const { return *options_.key; }
  /// Before it is up: who answers what a sink doesn't.
  void answer_with(std::function<std::optional<sink_reply>(const sink_question&)> ask) {
    options_.ask = std::move(ask);
  }
  void up();
  void down();
  /// While it is up: this event gets an error of its own.
  void refuse(const std::string& event_id);
  demo_received received() const;
  /// Speaks to the engine: a signed PUT /send of these EDUs to http://`engine`. The status of the answer, 0 if there is
  /// none.
  int send(const std::string& engine_name, const std::string& engine, const std::vector<nlohmann::json>& edus);

private:
  void take(const std::string& line);

  sink_options options_;
  std::string host_;
  int port_ = 0;
  int sent_ = 0;
  mutable std::mutex mutex_; ///< guards got_
  demo_received got_;
  std::optional<socket_held> place_; ///< while it is down: nobody else takes its port, and nobody listens there
  std::unique_ptr<sink> running_;    ///< ends before what it tells to
};

} // namespace ranvier
