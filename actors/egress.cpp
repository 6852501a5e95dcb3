#include "actors/egress.hpp"

#include "actors/actor_facts.hpp"

#include "actors/log.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace ranvier {
namespace {

struct reply_came {
  std::uint64_t ticket = 0;
  http_reply what;
};
struct cancelled_all {
  std::uint64_t number = 0;
};

using egress_self = egress_actor::extend<caf::reacts_to<local<reply_came>>, caf::reacts_to<local<cancelled_all>>>;

/// So many destinations are remembered to be looked up anew because connecting to them failed.
constexpr std::size_t most_doubted = 20'000;

class egress_core {
public:
  egress_core(egress_self::pointer self, egress_settings settings, resolver_actor resolver)
      : self_(self)
      , facts_(self, "egress")
      , settings_(std::move(settings))
      , resolver_(std::move(resolver)) {
    if (!settings_.client) settings_.client = std::make_shared<http_client>(settings_.http);
  }

  ~egress_core() {
    // Nobody may wait for ever: what is outstanding is answered even if this actor is killed.
    for (auto& [ticket, o] : orders_) {
      http_answer a;
      a.cancelled = true;
      a.request_sent = o.submitted;
      a.problem = "the egress ended";
      send_answer(*o.order, std::move(a));
    }
    for (const auto& [asker, tickets] : by_asker_)
      settings_.client->cancel(asker, [] {});
  }

  egress_self::behavior_type make_behavior() {
    return {
        [this](local<http_order>& o) { facts_.count(), take(o); },
        [this](local<cancel_calls>& c) { return c->waiting_only ? start_no_more() : cancel(c->asker); },
        [this](describe) { return description{describe_self()}; },
        [this](local<reply_came>& r) { take(*r); },
        [this](local<cancelled_all>& c) { cancelled(c->number); },
    };
  }

private:
  struct open_order {
    local<http_order> order;
    bool submitted = false;
  };

  void take(local<http_order>& o) {
    auto ticket = ++last_ticket_;
    orders_[ticket] = {o, false};
    by_asker_[o->asker].insert(ticket);
    if (closing_) return not_begun(ticket);
    const auto& name = o->call.destination;
    auto question = make_local(resolve{name, false, doubted_.erase(name) > 0});
    self_->request(resolver_, std::chrono::milliseconds(settings_.resolve_timeout_ms), question)
        .then([this, ticket](local<route>& way) { resolved(ticket, *way); },
              [this, ticket](caf::error& e) {
                unresolved(ticket, "the resolver didn't answer (" + self_->system().render(e) + ")");
              });
  }

  void resolved(std::uint64_t ticket, const route& way) {
    auto it = orders_.find(ticket);
    if (it == orders_.end()) return; // cancelled meanwhile
    if (!way.ok) return unresolved(ticket, way.problem, way.name_unknown);
    it->second.submitted = true;
    http_job job;
    job.asker = it->second.order->asker;
    job.call = it->second.order->call;
    job.way = way;
    job.answer = [to = egress_self{self_}, ticket](http_reply r) {
      caf::anon_send(to, make_local(reply_came{ticket, std::move(r)}));
    };
    settings_.client->submit(std::move(job));
  }

  void unresolved(std::uint64_t ticket, std::string problem, bool name_unknown = false) {
    http_answer a;
    a.stage = failure_stage::resolve;
    a.problem = std::move(problem);
    a.name_unknown = name_unknown;
    answer(ticket, std::move(a));
  }

  void take(const reply_came& r) {
    const auto& a = r.what.answer;
    auto it = orders_.find(r.ticket);
    bool unconnected =
        a.status == 0 && !a.cancelled && (a.stage == failure_stage::connect || a.stage == failure_stage::tls);
    if (it != orders_.end() && unconnected && doubted_.size() < most_doubted)
      doubted_.insert(it->second.order->call.destination);
    answer(r.ticket, a);
  }

  void answer(std::uint64_t ticket, http_answer a) {
    auto node = orders_.extract(ticket);
    if (node.empty()) return; // it was answered already
    auto& o = *node.mapped().order;
    auto of = by_asker_.find(o.asker);
    of->second.erase(ticket);
    if (of->second.empty()) by_asker_.erase(of);
    send_answer(o, std::move(a));
  }

  void send_answer(const http_order& o, http_answer a) {
    a.id = o.call.id;
    if (o.reply_to) self_->send(o.reply_to, make_local(std::move(a)));
  }

  caf::result<done> cancel(const std::string& asker) {
    auto promise = self_->make_response_promise<done>();
    auto it = by_asker_.find(asker);
    if (it == by_asker_.end()) {
      promise.deliver(done{});
      return promise;
    }
    auto tickets = it->second;
    bool submitted = false;
    for (auto ticket : tickets) {
      if (orders_.at(ticket).submitted) {
        submitted = true;
        continue; // the client answers it, as cancelled or with what it had got
      }
      http_answer a;
      a.cancelled = true;
      a.stage = failure_stage::resolve;
      a.problem = "ended by its asker";
      answer(ticket, std::move(a));
    }
    if (!submitted) {
      promise.deliver(done{});
      return promise;
    }
    auto number = ++last_cancellation_;
    cancellations_.emplace(number, promise);
    settings_.client->cancel(
        asker, [to = egress_self{self_}, number] { caf::anon_send(to, make_local(cancelled_all{number})); });
    return promise;
  }

  /// The engine stops: what hasn't begun doesn't.
  caf::result<done> start_no_more() {
    closing_ = true;
    std::vector<std::uint64_t> unsubmitted;
    for (const auto& [ticket, o] : orders_)
      if (!o.submitted) unsubmitted.push_back(ticket);
    for (auto ticket : unsubmitted)
      not_begun(ticket);
    settings_.client->start_no_more();
    return done{};
  }

  void not_begun(std::uint64_t ticket) {
    http_answer a;
    a.cancelled = true;
    a.stage = failure_stage::resolve;
    a.problem = "the engine is stopping";
    answer(ticket, std::move(a));
  }

  void cancelled(std::uint64_t number) {
    auto node = cancellations_.extract(number);
    if (!node.empty()) node.mapped().deliver(done{});
  }

  std::string describe_self() {
    auto f = settings_.client->look();
    std::size_t resolving = 0;
    for (const auto& [ticket, o] : orders_)
      resolving += !o.submitted;
    auto view = facts_.view(orders_.empty() ? "idle" : "sending", "");
    view.update(nlohmann::json{{"in_flight", f.in_flight},
                               {"queued", f.queued},
                               {"resolving", resolving},
                               {"connections", f.connections},
                               {"requests_started", f.started},
                               {"requests_cut", f.cut},
                               {"connections_opened", f.opened},
                               {"orders", orders_.size()}});
    return view.dump();
  }

  egress_self::pointer self_;
  actor_facts facts_;
  egress_settings settings_;
  resolver_actor resolver_;
  bool closing_ = false;
  std::uint64_t last_ticket_ = 0, last_cancellation_ = 0;
  std::unordered_map<std::uint64_t, open_order> orders_;
  std::unordered_map<std::string, std::set<std::uint64_t>> by_asker_;
  std::unordered_map<std::uint64_t, caf::typed_response_promise<done>> cancellations_;
  std::unordered_set<std::string> doubted_; ///< connecting failed: the next order has them looked up anew
};

struct egress_state {
  egress_state() = default;
  static inline const char* name = "egress";
  std::optional<egress_core> core;
};

egress_self::behavior_type egress_body(egress_self::stateful_pointer<egress_state> self, egress_settings settings,
                                       resolver_actor resolver) {
  self->set_exception_handler([](std::exception_ptr& e) -> caf::error {
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& x) {
      log_error("actor_failed", {{"actor", "egress"}, {"problem", x.what()}});
    } catch (...) {
      log_error("actor_failed", {{"actor", "egress"}, {"problem", "unknown"}});
    }
    return caf::sec::runtime_error;
  });
  self->state.core.emplace(self, std::move(settings), std::move(resolver));
  return self->state.core->make_behavior();
}

} // namespace

egress_actor spawn_egress(caf::actor_system& system, egress_settings settings, resolver_actor resolver) {
  return system.spawn(egress_body, std::move(settings), std::move(resolver));
}

outgoing spawn_outgoing(caf::actor_system& system, const config& c, std::uint64_t seed, std::int64_t max_connections) {
  egress_settings s;
  s.http = http_client_settings::from(c);
  if (max_connections > 0) s.http.max_connections = std::min(s.http.max_connections, max_connections);
  s.client = std::make_shared<http_client>(s.http);
  dns_settings d;
  auto kept_in = c.data_dir.empty() ? std::string() : c.data_dir + "/discovery.json";
  d.servers = c.federation.dns_servers;
  auto resolver = spawn_resolver(system, resolver_settings::from(c),
                                 make_resolver_tools(std::make_shared<dns_client>(d), s.client, seed, kept_in));
  return {spawn_egress(system, std::move(s), resolver), resolver};
}

} // namespace ranvier
