#pragma once
#include "actors/ingress.hpp"
#include "actors/join_desk.hpp"
#include "actors/key_desk.hpp"

#include <atomic>
#include <list>
#include <map>

namespace ranvier {

/// The host listener's side on HTTP threads: token, routes, and what needs no other actor (API section 3).
class host_front final : public http_service {
public:
  host_front(ingress_parts parts, ingress_actor actor);
  body_plan headers_in(const std::shared_ptr<http_exchange>& exchange) override;
  void request_in(std::shared_ptr<http_exchange> exchange) override;

private:
  bool has_token(const std::shared_ptr<http_exchange>& exchange) const;
  void sign(http_exchange& exchange) const;
  ingress_parts parts_;
  ingress_actor actor_;
  router router_;
};

/// Answers /healthz, /readyz and /metrics on any listener: status, body, Content-Type.
struct health_answer {
  int status = 404;
  std::string body, content_type = "application/json";
};
health_answer answer_health(std::string_view name, const ingress_parts& parts);

/// One asker of the stream, from its request to its end.
struct stream_call {
  std::shared_ptr<http_exchange> exchange;
  std::string consumer;
  bool has_after = false, acknowledged = false, events = false, begun = false;
  position after = 0;
  std::size_t limit = 100;
  bool gone = false; ///< its client
  caf::actor_clock::time_point due; ///< long poll: answer by then; event stream: write a sign of life by then
  std::shared_ptr<void> ticket;     ///< counted among the waiting calls as long as it lives
};

/// The stream of API 3.2: long polls and server-sent events. Lives in the ingress actor's state; sets the actor's one
/// timer.
class stream_desk {
public:
  stream_desk(ingress_actor::pointer self, const ingress_parts& parts)
      : self_(self)
      , parts_(parts) {}
  void take(const std::shared_ptr<http_exchange>& exchange, std::shared_ptr<void> ticket);
  void advanced();
  void written(const stream_written& done);
  void due(std::uint64_t generation);
  std::size_t waiting() const { return waiting_.size(); }

private:
  using call_ptr = std::shared_ptr<stream_call>;
  void read(const call_ptr& call);
  void paged(const call_ptr& call, std::uint64_t seen, const stream_page& page);
  void acknowledge(const call_ptr& call, std::uint64_t seen, const local<stream_page>& page);
  void hand_over(const call_ptr& call, std::uint64_t seen, const stream_page& page);
  void write(const call_ptr& call, std::string piece);
  void wait(const call_ptr& call);
  void arm();

  ingress_actor::pointer self_;
  const ingress_parts& parts_;
  std::list<call_ptr> waiting_;
  std::uint64_t advances_ = 0; ///< so that what came between a read and its answer isn't missed
  std::map<std::string, position> acknowledged_;
  std::uint64_t generation_ = 0;
  bool armed_ = false;
  caf::actor_clock::time_point armed_for_;
};

/// The host's other calls, inside the actor.
class host_desk {
public:
  host_desk(ingress_actor::pointer self, const ingress_parts& parts, key_desk& keys, join_desk& joins)
      : self_(self)
      , parts_(parts)
      , keys_(keys)
      , joins_(joins)
      , stream_(self, parts) {}
  void take(const local<incoming>& in);
  void feed(const local<feed_step>& step);
  stream_desk& stream() { return stream_; }
  std::size_t stream_waiters() const { return stream_.waiting(); }
  int waiting_calls() const { return *waiting_; }
  std::uint64_t fed = 0;

private:
  void feed_position(const std::shared_ptr<http_exchange>& exchange);
  void count(const feed_outcome& outcome);
  void request(const local<incoming>& in, std::shared_ptr<void> held);
  std::shared_ptr<void> ticket();

  ingress_actor::pointer self_;
  const ingress_parts& parts_;
  key_desk& keys_;
  join_desk& joins_;
  stream_desk stream_;
  std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);
};

} // namespace ranvier
