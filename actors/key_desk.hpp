#pragma once
#include "actors/ingress.hpp"
#include "actors/key_questions.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// The key endpoints of both listeners (API 3.3 and 4; PROTOCOL 13, 16). Lives in the ingress actor's state. Every call
/// is bounded by its caller's timeout: each question that it asks has what is left of it as its own.
///
/// A query looks into storage first: our own users and lists that are true are answered from there, whatever their
/// server's state (F4). Lists that are stale or not held are fetched by the destination actors of their servers, all
/// servers at a time, and read again. Users of whom nothing is kept are asked for directly, one request a server.
class key_desk {
public:
  key_desk(ingress_actor::pointer self, const ingress_parts& parts)
      : self_(self)
      , parts_(parts) {}

  /// The host's calls. `held` lives as long as the call: it is counted among those that wait.
  void take(const local<incoming>& in, std::shared_ptr<void> held);
  /// Those of another server, authenticated.
  void serve(const local<incoming>& in);
  static bool serves(const std::string& route);

private:
  using clock_point = caf::actor_clock::time_point;
  /// A query of the host, from its beginning to its answer.
  struct query {
    std::shared_ptr<http_exchange> exchange;
    std::shared_ptr<void> held;
    devices_asked users;
    std::string requester;
    clock_point deadline;
    query_result result;
    devices_asked again;         ///< users whose list was fetched: read once more
    std::set<std::string> had;   ///< of those, users of whom some list is held
    std::size_t outstanding = 1; ///< answers that it waits for, and its own beginning
  };
  using query_ptr = std::shared_ptr<query>;
  /// Keys of users of whom nothing is kept, on their way: whoever asks for the same meanwhile gets the same (F10).
  struct flight {
    clock_point deadline;
    std::vector<std::function<void(const query_answer&)>> waiting;
  };
  struct claim {
    std::shared_ptr<http_exchange> exchange;
    std::shared_ptr<void> held;
    claimed_keys keys;
    std::map<std::string, std::string> failures;
    std::size_t outstanding = 1;
  };
  using claim_ptr = std::shared_ptr<claim>;

  void begin_query(const local<incoming>& in, std::shared_ptr<void> held);
  void sort_users(const query_ptr& one, const known_keys& known);
  void refresh(const query_ptr& one, const std::string& server, const std::vector<std::string>& users);
  void refreshed_users(const query_ptr& one, const std::string& server, const std::vector<std::string>& users,
                       const refreshed& outcome);
  void ask_directly(const query_ptr& one, const std::string& server, const devices_asked& users);
  void fly(const query_ptr& one, const std::string& server, const devices_asked& users, bool shared);
  void landed(const devices_asked& users, bool shared, const std::shared_ptr<flight>& one, const query_answer& answer);
  void query_step_done(const query_ptr& one);
  void add_fetched(const query_ptr& one, const devices_asked& users, const known_keys& known);

  void begin_claim(const local<incoming>& in, std::shared_ptr<void> held);
  void claim_ours(const claim_ptr& one, claim_own_keys wanted);
  void claim_theirs(const claim_ptr& one, const std::string& server, const keys_claimed& wanted,
                    std::int64_t timeout_ms);
  void claim_step_done(const claim_ptr& one);

  void counts(const std::shared_ptr<http_exchange>& exchange);
  void changes(const std::shared_ptr<http_exchange>& exchange);

  void serve_devices(const std::shared_ptr<http_exchange>& exchange);
  void serve_query(const local<incoming>& in);
  void serve_claim(const local<incoming>& in);

  bool is_ours(const std::string& user) const;
  std::int64_t left_ms(clock_point deadline) const;

  ingress_actor::pointer self_;
  const ingress_parts& parts_;
  std::map<std::string, std::shared_ptr<flight>> flights_; ///< by user
};

} // namespace ranvier
