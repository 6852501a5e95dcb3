#include "actors/ingress.hpp"

#include "actors/actor_facts.hpp"
#include "actors/federation_api.hpp"
#include "actors/host_api.hpp"
#include "actors/log.hpp"
#include "actors/metrics.hpp"
#include "actors/net/http_server.hpp"

#include <deque>
#include <optional>

namespace ranvier {
namespace {

class ingress {
public:
  ingress(ingress_actor::pointer self, ingress_parts parts, int restarts)
      : self_(self)
      , parts_(std::move(parts))
      , facts_(self, "ingress", "", "engine", parts_.wall_ms(), restarts)
      , keys_(self, parts_)
      , joins_(self, parts_)
      , host_(self, parts_, keys_, joins_)
      , federation_(self, parts_, keys_, joins_, [this] { host_.stream().advanced(); }) {}
  ingress_actor::behavior_type make_behavior();

private:
  void take(const local<incoming>& in);
  description view() const;

  ingress_actor::pointer self_;
  const ingress_parts parts_;
  actor_facts facts_;
  key_desk keys_;
  join_desk joins_;
  host_desk host_;
  federation_desk federation_;
};

struct holder {
  holder() = default;
  static inline const char* name = "ingress";
  std::optional<ingress> core;
};
using self_ptr = ingress_actor::stateful_pointer<holder>;

ingress_actor::behavior_type ingress::make_behavior() {
  self_->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& problem) {
      log_error("actor_failed", {{"actor", "ingress"}, {"problem", problem.what()}});
    } catch (...) {
      log_error("actor_failed", {{"actor", "ingress"}, {"problem", "unknown"}});
    }
    return caf::make_error(caf::sec::runtime_error, "ingress");
  });
  return {[this](const local<incoming>& in) { take(in); },
          [this](const local<feed_step>& step) {
            facts_.count();
            host_.feed(step);
          },
          [this](const local<stream_written>& done) {
            facts_.count();
            host_.stream().written(*done);
          },
          [this](const stream_advanced&) {
            facts_.count();
            joins_.advanced();
            host_.stream().advanced();
          },
          [this](const tick& due) {
            facts_.count();
            host_.stream().due(due.generation);
          },
          [this](const describe&) {
            facts_.count();
            return view();
          }};
}

/// One bad request must not cost all others, so what a handler throws ends here.
void ingress::take(const local<incoming>& in) {
  facts_.count();
  try {
    in->from == incoming::side::federation ? federation_.take(in) : host_.take(in);
  } catch (const std::exception& problem) {
    log_error("request_failed", {{"route", in->exchange->route.name}, {"problem", problem.what()}});
    in->exchange->respond_error(500, "M_UNKNOWN", "this request could not be worked on; it is a fault of ours");
  }
}

description ingress::view() const {
  const auto& n = federation_.counted;
  const auto in_work = federation_.in_work();
  auto json = facts_.view("serving", in_work > 0 ? std::to_string(in_work) + " inbound transactions" : "");
  json["transactions_in_work"] = in_work;
  json["waiting_calls"] = host_.waiting_calls();
  json["stream_waiters"] = host_.stream_waiters();
  json["feed_lines"] = host_.fed;
  json["inbound"] = {{"transactions", n.transactions},
                     {"repeated", n.repeated},
                     {"pdus", n.pdus},
                     {"edus", n.edus},
                     {"items_refused", n.items_refused},
                     {"unauthorized", n.unauthorized},
                     {"limited", n.limited},
                     {"unavailable", n.failed}};
  return {json.dump()};
}

ingress_actor::behavior_type behave(self_ptr self, ingress_parts parts, int restarts) {
  self->state.core.emplace(self, std::move(parts), restarts);
  return self->state.core->make_behavior();
}

/// Whom listeners and everybody else know as the ingress: it hands all on to an ingress, and makes a new one if that
/// crashes, so that nobody has to learn of another. Ends when it is told to, after the ingress.
class keeper {
public:
  keeper(ingress_actor::pointer self, ingress_parts parts)
      : self_(self)
      , parts_(std::move(parts)) {
    self_->set_down_handler([this](const caf::down_msg& down) { ended(down); });
    self_->set_exit_handler([this](const caf::exit_msg& word) {
      ending_ = true;
      if (!ingress_) return self_->quit(word.reason);
      self_->send_exit(ingress_, word.reason);
    });
    begin();
  }

  ingress_actor::behavior_type make_behavior() {
    return {[this](const local<incoming>& in) { hand_on(in); },
            [this](const local<feed_step>& step) { hand_on(step); },
            [this](const local<stream_written>& done) { hand_on(done); },
            [this](const stream_advanced& word) { hand_on(word); },
            [this](const tick&) { begin(); },
            [this](const describe& d) -> caf::result<description> {
              if (ingress_) return self_->delegate(ingress_, d);
              return description{actor_facts(self_, "ingress", "", "engine", 0, restarts_).view("failed", "").dump()};
            }};
  }

private:
  static constexpr std::size_t most_crashes = 5; ///< in a minute; one more, and the next life waits
  static constexpr std::chrono::seconds crashes_within{60}, wait{10};

  /// What nobody takes dies here, and an exchange that dies answers 500.
  template <class Message> void hand_on(const Message& what) {
    if (ingress_) self_->send(ingress_, what);
  }
  void begin() {
    ingress_ = self_->system().spawn(behave, parts_, restarts_);
    self_->monitor(ingress_);
  }
  void ended(const caf::down_msg& down) {
    ingress_ = nullptr;
    if (ending_) return self_->quit(down.reason);
    ++restarts_;
    if (parts_.counters) parts_.counters->add(metrics::counter::actor_restarts);
    const auto now = self_->clock().now();
    crashes_.push_back(now);
    while (crashes_.front() + crashes_within < now)
      crashes_.pop_front();
    const bool often = crashes_.size() > most_crashes;
    log_error("ingress_restarted", {{"why", self_->system().render(down.reason)}, {"waits", often ? "10 s" : "no"}});
    if (!often) return begin();
    self_->delayed_send(caf::actor_cast<ingress_actor>(self_->ctrl()), wait, tick{});
  }

  ingress_actor::pointer self_;
  const ingress_parts parts_;
  ingress_actor ingress_;
  int restarts_ = 0;
  std::deque<caf::actor_clock::time_point> crashes_;
  bool ending_ = false;
};

struct keeper_state {
  keeper_state() = default;
  static inline const char* name = "ingress keeper";
  std::optional<keeper> core;
};

ingress_actor::behavior_type keep(ingress_actor::stateful_pointer<keeper_state> self, ingress_parts parts) {
  self->state.core.emplace(self, std::move(parts));
  return self->state.core->make_behavior();
}

http_options options_for(const config& settings, bool federation) {
  http_options out;
  out.listen = federation ? settings.federation.listen : settings.host.listen;
  if (federation) {
    out.tls_certificate = settings.federation.tls_certificate;
    out.tls_private_key = settings.federation.tls_private_key;
    out.connections = static_cast<std::size_t>(settings.limits.federation_connections);
  } else {
    // The host is trusted: it may be slow with its feed, and hold as many connections as it has calls waiting.
    out.connections = static_cast<std::size_t>(settings.limits.waiting_calls) + 1'000;
    out.body_grace = std::chrono::seconds(60);
    out.body_bytes_per_second = 1024;
  }
  return out;
}

} // namespace

ingress_actor spawn_ingress(caf::actor_system& system, ingress_parts parts) {
  return system.spawn(keep, std::move(parts));
}

struct ingress_listeners::impl {
  impl(const ingress_parts& parts, const ingress_actor& actor)
      : federation(parts, actor)
      , host(parts, actor)
      , federation_server(threads, options_for(*parts.settings, true), federation)
      , host_server(threads, options_for(*parts.settings, false), host) {}
  federation_front federation;
  host_front host;
  http_threads threads{2};
  http_server federation_server, host_server;
};

ingress_listeners::ingress_listeners(const ingress_parts& parts, ingress_actor actor)
    : impl_(std::make_unique<impl>(parts, actor)) {}
ingress_listeners::~ingress_listeners() = default;

void ingress_listeners::stop(std::chrono::milliseconds grace) {
  // One after the other, so that the host may still read what the last transactions brought.
  impl_->federation_server.stop(grace);
  impl_->host_server.stop(grace);
}
std::uint16_t ingress_listeners::federation_port() const { return impl_->federation_server.port(); }
std::uint16_t ingress_listeners::host_port() const { return impl_->host_server.port(); }

} // namespace ranvier
