#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// How a pretended homeserver behaves. Times in ms.
struct sink_behaviour {
  struct failing {
    int status = 503;
    std::int64_t times = 1;
  };
  std::vector<failing> failures; ///< the next answers to PUT /send, in this order; then all goes well
  std::set<std::string> refuse;  ///< event ids that get an error of their own in a 200 (T5)
  std::set<std::string> poison;  ///< event ids because of which the whole transaction is answered 400
  std::int64_t delay_ms = 0;     ///< before each answer to PUT /send
  std::int64_t down_ms = 0;      ///< not listening at first
};

/// "503:10" or "503": throws std::invalid_argument with a sentence.
sink_behaviour::failing parse_failing(const std::string& text);

/// What is answered to one PUT /send, and the lines that tell of it.
struct sink_answer {
  int status = 200;
  std::string body;
  std::vector<std::string> lines; ///< JSON, one object each
};

/// The pretended server's mind: which answer comes when. Pure but for its memory of transactions; not thread-safe.
class sink_script {
public:
  /// `room_version` is that of all rooms, for event ids.
  sink_script(std::string name, std::string room_version, sink_behaviour behaviour);

  /// One PUT /send, with its Authorization header as it came.
  sink_answer receive(const std::string& txn_id, const std::string& body, const std::string& authorization,
                      std::int64_t now_ms);
  /// From now on this event gets an error of its own.
  void refuse(const std::string& event_id) { behaviour_.refuse.insert(event_id); }

private:
  int next_status();
  std::string id_of(std::string_view pdu) const;
  std::string judge(const nlohmann::json& transaction, sink_answer& out);
  std::string name_, room_version_;
  sink_behaviour behaviour_;
  std::size_t failing_ = 0;                 ///< index into behaviour_.failures
  std::int64_t failed_ = 0;                 ///< how often it was answered so
  std::map<std::string, std::string> seen_; ///< origin and transaction id -> the 200 that it got (I3)
};

} // namespace ranvier
