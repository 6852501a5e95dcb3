#pragma once
#include "actors/inbound.hpp"
#include "actors/ingress.hpp"
#include "actors/join_desk.hpp"
#include "actors/key_desk.hpp"
#include "actors/log_budget.hpp"
#include "actors/net/upstream.hpp"

#include <deque>
#include <map>
#include <memory>

namespace ranvier {

/// The federation listener's side on HTTP threads: routes, forms, what needs no other actor (API section 4).
class federation_front final : public http_service {
public:
  federation_front(ingress_parts parts, ingress_actor actor);
  body_plan headers_in(const std::shared_ptr<http_exchange>& exchange) override;
  void request_in(std::shared_ptr<http_exchange> exchange) override;

private:
  bool may_speak(const std::shared_ptr<http_exchange>& exchange, const x_matrix& auth) const;
  std::string own_keys() const;
  ingress_parts parts_;
  ingress_actor actor_;
  router router_;
};

/// The body of GET /_matrix/key/v2/server (K1-K5, K10).
std::string own_key_document(const config& settings, const signing_key& key, std::int64_t now_ms);

/// The federation listener's side in the actor: authentication, and inbound transactions in the order in which they
/// came, one per origin at a time (B107). Lives in the ingress actor's state.
class federation_desk {
public:
  federation_desk(ingress_actor::pointer self, const ingress_parts& parts, key_desk& keys, join_desk& joins,
                  std::function<void()> stream_moved)
      : self_(self)
      , parts_(parts)
      , keys_(keys)
      , joins_(joins)
      , stream_moved_(std::move(stream_moved)) {
    if (const auto& base = parts.settings->federation.upstream; !base.empty())
      upstream_ = std::make_unique<upstream>(base);
  }
  void take(const local<incoming>& in);

  struct counts {
    std::uint64_t transactions = 0, repeated = 0, pdus = 0, edus = 0, items_refused = 0, unauthorized = 0, limited = 0,
                  failed = 0;
  } counted;
  std::size_t in_work() const;

private:
  bool signed_by(const std::string& key, const incoming& in) const;
  /// One (origin, txn_id), with everybody who asked for it meanwhile (I3).
  struct job {
    std::string origin, txn_id;
    local<incoming> in;
    std::vector<std::shared_ptr<http_exchange>> askers;
    std::unique_ptr<inbound_judge> judge;
    room_book rooms;
    key_book keys;
    std::size_t outstanding = 0;
    std::string problem; ///< not empty: something of ours failed; 503
  };
  using job_ptr = std::shared_ptr<job>;
  struct lane {
    job_ptr current;
    std::deque<job_ptr> waiting;
  };

  void authenticated(const local<incoming>& in);
  void start(const job_ptr& one);
  void ask_rooms(const job_ptr& one);
  void ask_keys(const job_ptr& one);
  void store(const job_ptr& one);
  void stored(const job_ptr& one, const inbound_outcome& outcome, bool has_items);
  void step_done(const job_ptr& one, void (federation_desk::*next)(const job_ptr&));
  void run(const job_ptr& one, void (federation_desk::*step)(const job_ptr&));
  void finish(const job_ptr& one, int status, const std::string& text, const http_headers& extra = {});
  void unavailable(const job_ptr& one, const std::string& why);
  void count(const char* outcome);

  ingress_actor::pointer self_;
  const ingress_parts& parts_;
  key_desk& keys_;
  join_desk& joins_;
  std::function<void()> stream_moved_;
  std::map<std::string, lane> lanes_;
  log_budget log_refused_, log_unauthorized_;
  std::unique_ptr<upstream> upstream_; ///< null: what we don't serve is answered 404
};

} // namespace ranvier
