#include "actors/supervisor_core.hpp"

#include "actors/log.hpp"
#include "messages/allowed_servers.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 60s;
constexpr std::size_t boot_page = 500;
constexpr std::size_t denied_cache_limit = 50'000;

supervisor_actor::behavior_type behavior(supervisor_self self, const supervisor_parts& parts) {
  self->state.core.emplace(self, parts);
  return self->state.core->make_behavior();
}

} // namespace

supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_parts parts) {
  return system.spawn(behavior, std::move(parts));
}

supervisor_core::supervisor_core(supervisor_self self, supervisor_parts parts)
    : self_(self)
    , parts_(std::move(parts))
    , facts_(self, "supervisor", "", "engine", parts_.destinations->wall_ms()) {
  self_->set_down_handler([this](const caf::down_msg& down) { ended(down); });
  self_->set_exit_handler([this](const caf::exit_msg& word) { end_all(word.reason); });
  heartbeat_due_ms_ = now_ms() + heartbeat_ms; // the ledger wrote the first
  arm();
  auto listener = caf::actor_cast<commit_listener>(self_);
  self_->request(parts_.destinations->ledger, store_timeout, make_local(listen{listener}))
      .then([this](const done&) { boot(""); },
            [this](const caf::error& problem) {
              log_error("ledger_not_heard", {{"why", self_->system().render(problem)}});
              self_->quit(problem);
            });
}

supervisor_actor::behavior_type supervisor_core::make_behavior() {
  return {[this](const local<committed>& c) { facts_.count(), fan_out(*c); },
          [this](const subscribe& s) { return facts_.count(), take_subscription(s); },
          [this](const unsubscribe& u) { facts_.count(), drop_subscription(u); },
          [this](const may_retire& m) { return facts_.count(), judge_retirement(m); },
          [this](const pull& p) { return facts_.count(), pass_on(p); },
          [this](const refresh_lists& r) { return facts_.count(), pass_on(r); },
          [this](const heard_from& h) { facts_.count(), pass_on(h); },
          [this](const operate& o) { return facts_.count(), pass_on(o); },
          [this](const operate_join& o) { return facts_.count(), pass_on(o); },
          [this](const local<describe_joins>& d) { return facts_.count(), describe_partial_joins(d); },
          [this](const reachability& r) { facts_.count(), took(r); },
          [this](const wind_down& w) { return facts_.count(), wind_down_all(w); },
          [this](const local<describe_one>& d) { return facts_.count(), describe_destination(*d); },
          [this](const local<list_view>& l) { return facts_.count(), list_destinations_view(*l); },
          [this](const local<list_actors>& l) { return facts_.count(), list_actors_view(*l); },
          [this](const local<totals>&) { return facts_.count(), totals_view(); },
          [this](const local<introduce>& i) { meet(*i); },
          [this](const tick& t) { on_tick(t); },
          [this](const describe&) { return description{own_view().dump()}; }};
}

std::int64_t supervisor_core::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self_->clock().now().time_since_epoch()).count();
}

/// Starts those that are owed something, page by page, so that a long list delays nobody; "ready" waits for none of it.
void supervisor_core::boot(const std::string& after) {
  if (stopping_) return;
  if (!std::exchange(ready_told_, true) && parts_.ready) parts_.ready();
  self_->request(parts_.destinations->reader("boot"), store_timeout, make_local(list_owed{after, boot_page}))
      .then(
          [this](const local<names>& owed) {
            for (const auto& name : owed->list)
              ensure(name, true);
            if (owed->list.size() >= boot_page) return boot(owed->list.back());
            booting_ = false;
            begin_after_boot();
          },
          [this, after](const caf::error& problem) {
            log_error("owed_list_not_read", {{"why", self_->system().render(problem)}});
            boot(after);
          });
}

/// In position order, as the ledger committed them (DESIGN section 3).
void supervisor_core::fan_out(const committed& news) {
  for (const auto& entry : news.entries) {
    if (entry.kind == entry_kind::partial_join) look_after(entry.room_id);
    auto shared = std::make_shared<const log_entry>(entry);
    if (entry.servers)
      for (const auto& server : *entry.servers)
        hand_over(server, shared);
    fanned_out_ = std::max(fanned_out_, entry.pos);
  }
  fanned_out_ = std::max(fanned_out_, news.head);
}

void supervisor_core::hand_over(const std::string& server, const std::shared_ptr<const log_entry>& entry) {
  if (stopping_) return; // it stands in the log
  // An ephemeral EDU and a stale mark aren't read from the log: each is told.
  const bool logged = entry->kind != entry_kind::ephemeral && entry->kind != entry_kind::stale &&
                      entry->kind != entry_kind::partial_join;
  auto* one = ensure(server, logged);
  if (!one || !one->actor) return;
  if (logged && !one->subscribed) {
    // It reads the log when its gate lets it. Only the first entry is told, so that it knows that there is something.
    if (one->behind) return;
    one->behind = true;
  }
  ++one->sent;
  self_->send(one->actor, make_local(deliver{entry}));
}

bool supervisor_core::denied(const std::string& server) {
  if (auto found = denied_cache_.find(server); found != denied_cache_.end()) return found->second;
  const auto& settings = parts_.destinations->settings.federation;
  const bool is = server_is_denied(settings.allow, settings.deny, server);
  if (denied_cache_.size() >= denied_cache_limit) denied_cache_.clear();
  return denied_cache_[server] = is;
}

/// The child of that name, made if need be; none for a server that policy forbids (B29).
supervisor_core::child* supervisor_core::ensure(const std::string& server, bool owed) {
  if (denied(server) || server == parts_.destinations->settings.server_name) return nullptr;
  auto& one = children_[server];
  if (!one.actor && !one.failed && !stopping_) start(server, one, owed);
  return &one;
}

void supervisor_core::start(const std::string& server, child& one, bool owed) {
  one.sent = 0;
  one.subscribed = false;
  one.behind = owed;
  one.actor = spawn_destination(self_->system(), parts_.destinations, caf::actor_cast<supervisor_actor>(self_),
                                destination_birth{server, owed, one.restarts});
  self_->monitor(one.actor);
  names_[one.actor->id()] = server;
}

/// A child ended: it retired (then it is no longer in the map), or it crashed and is made anew from what storage knows.
void supervisor_core::ended(const caf::down_msg& down) {
  auto found = names_.find(down.source.id());
  if (found == names_.end()) return join_ended(down);
  const auto server = found->second;
  names_.erase(found);
  auto entry = children_.find(server);
  if (entry == children_.end()) return;
  auto& one = entry->second;
  if (!one.actor || one.actor->id() != down.source.id()) return;
  one.actor = nullptr;
  if (stopping_) return;
  if (std::exchange(one.by_hand, false)) {
    ++one.restarts;
    return start(server, one, true);
  }
  const auto at = now_ms();
  one.last_crash = self_->system().render(down.reason);
  one.crashes.push_back(at);
  while (!one.crashes.empty() && one.crashes.front() <= at - parts_.budget.within_ms)
    one.crashes.pop_front();
  ++one.restarts;
  ++restarts_;
  parts_.destinations->counters->add(metrics::counter::actor_restarts);
  last_restart_ = server;
  last_restart_wall_ms_ = parts_.destinations->wall_ms();
  if (int(one.crashes.size()) > parts_.budget.restarts) {
    one.failed = true;
    one.retry_at_ms = at + parts_.budget.failed_for_ms;
    log_error("destination_failed", {{"destination", server}, {"why", one.last_crash}});
    retry_due_ms_ = std::min(retry_due_ms_.value_or(one.retry_at_ms), one.retry_at_ms);
    return arm();
  }
  log_warning("destination_restarted", {{"destination", server}, {"why", one.last_crash}});
  start(server, one, true);
}

/// The engine stops: all destinations end with it.
void supervisor_core::end_all(const caf::error& reason) {
  names_.clear();
  for (auto& [server, one] : children_)
    if (one.actor) self_->send_exit(one.actor, reason);
  for (auto& [room_id, one] : joins_)
    if (one.actor) self_->send_exit(one.actor, reason);
  joins_.clear();
  children_.clear();
  self_->quit(reason);
}

/// One timer, for what is due next. An earlier one that is pending fires first and arms again.
void supervisor_core::arm() {
  auto due = heartbeat_due_ms_;
  if (retry_due_ms_) due = std::min(due, *retry_due_ms_);
  if (joins_due_ms_) due = std::min(due, *joins_due_ms_);
  if (announcing_.active || forwarding_.active) due = std::min(due, nudge_due_ms_);
  if (armed_ && timer_due_ms_ <= due) return;
  armed_ = true;
  timer_due_ms_ = due;
  self_->delayed_send(self_, std::chrono::milliseconds(std::max<std::int64_t>(1, due - now_ms())),
                      tick{++timer_generation_});
}

void supervisor_core::on_tick(const tick& t) {
  if (t.generation != timer_generation_ || stopping_) return;
  armed_ = false;
  const auto at = now_ms();
  if (at >= heartbeat_due_ms_) beat();
  if (retry_due_ms_ && at >= *retry_due_ms_) retry_failed(at);
  if (joins_due_ms_ && at >= *joins_due_ms_) look_after_unread();
  if ((announcing_.active || forwarding_.active) && at >= nudge_due_ms_) nudge_some();
  arm();
}

/// Those whose budget was used up get another chance.
void supervisor_core::retry_failed(std::int64_t at_ms) {
  retry_due_ms_.reset();
  for (auto& [server, one] : children_) {
    if (!one.failed) continue;
    if (one.retry_at_ms <= at_ms) {
      one.failed = false;
      one.crashes.clear();
      start(server, one, true);
    } else {
      retry_due_ms_ = std::min(retry_due_ms_.value_or(one.retry_at_ms), one.retry_at_ms);
    }
  }
}

caf::result<subscribed> supervisor_core::take_subscription(const subscribe& s) {
  auto found = children_.find(s.destination);
  if (found == children_.end()) return subscribed{fanned_out_}; // it is on its way out
  found->second.subscribed = true;
  found->second.behind = false;
  return subscribed{fanned_out_};
}

void supervisor_core::drop_subscription(const unsubscribe& u) {
  if (auto found = children_.find(u.destination); found != children_.end()) found->second.subscribed = false;
}

done supervisor_core::judge_retirement(const may_retire& wish) {
  auto found = children_.find(wish.destination);
  if (found == children_.end() || !found->second.actor) return done{true, ""};
  auto& one = found->second;
  if (one.sent != wish.received || one.behind) {
    return done{false, "something came for it"};
  }
  self_->demonitor(caf::actor_cast<caf::actor_addr>(one.actor));
  names_.erase(one.actor->id());
  children_.erase(found);
  return done{true, ""};
}

caf::result<pulled> supervisor_core::pass_on(const pull& p) {
  if (stopping_) return pulled{0, {}, "the engine is stopping", 0, true};
  if (!is_server_name(p.destination)) return pulled{0, {}, p.destination + " is not a server name", 0, true};
  auto* one = ensure(p.destination, false);
  if (!one)
    return pulled{0, {}, p.destination + " may not be contacted: it is denied by [federation] allow or deny", 0, true};
  if (!one->actor) return pulled{0, {}, p.destination + " is failed: its actor crashed too often", 0, true};
  ++one->sent;
  return self_->delegate(one->actor, p);
}

caf::result<refreshed> supervisor_core::pass_on(const refresh_lists& wanted) {
  refreshed refused;
  if (stopping_) {
    refused.server_problem = "the engine is stopping";
  } else if (auto* one = ensure(wanted.destination, false); !one) {
    refused.server_problem = wanted.destination + " may not be contacted: it is denied by [federation] allow or deny";
  } else if (!one->actor) {
    refused.server_problem = wanted.destination + " is failed: its actor crashed too often";
  } else {
    ++one->sent;
    return self_->delegate(one->actor, wanted);
  }
  return refused;
}

/// Only one that waits for something cares; an idle server's gate is judged when there is something to send.
void supervisor_core::pass_on(const heard_from& heard) {
  for (const auto& [room_id, one] : joins_)
    if (one.actor) self_->send(one.actor, heard);
  auto found = children_.find(heard.server);
  if (found == children_.end() || !found->second.actor) return;
  ++found->second.sent;
  self_->send(found->second.actor, heard);
}

/// Its actor is ended like one that crashed, and made anew from what storage knows; one that was left alone gets its
/// chance now.
caf::result<done> supervisor_core::restart(const operate& order) {
  const auto found = children_.find(order.destination);
  if (found == children_.end() || (!found->second.actor && !found->second.failed))
    return done{false, "no actor of " + order.destination + " is running"};
  auto& one = found->second;
  log_info("operator", {{"destination", order.destination}, {"verb", order.verb}, {"who", order.who}});
  if (one.failed) {
    one.failed = false;
    one.crashes.clear();
    start(order.destination, one, true);
  } else {
    one.by_hand = true;
    self_->send_exit(one.actor, caf::exit_reason::kill);
  }
  return done{};
}

caf::result<done> supervisor_core::pass_on(const operate& order) {
  if (stopping_) return done{false, "the engine is stopping"};
  if (order.verb == "restart") return restart(order);
  auto obey = [this, order]() -> caf::result<done> {
    auto* one = ensure(order.destination, false);
    if (!one) return done{false, order.destination + " is denied by [federation] allow or deny"};
    if (!one->actor) return done{false, order.destination + " is failed: its actor crashed too often"};
    ++one->sent;
    return self_->delegate(one->actor, order);
  };
  if (children_.count(order.destination)) return obey();
  auto promise = self_->make_response_promise<done>();
  self_
      ->request(parts_.destinations->reader(order.destination), store_timeout,
                make_local(load_destination{order.destination}))
      .then(
          [this, order, promise](const local<loaded_destination>& found) mutable {
            // A server may be held before its first contact; else nobody is made for a name that was never heard of.
            const bool may = found->known || (order.verb == "hold" && is_server_name(order.destination));
            auto* one = may ? ensure(order.destination, false) : nullptr;
            if (!one || !one->actor) {
              promise.deliver(done{false, may ? order.destination + " may not be contacted"
                                              : "unknown destination " + order.destination});
              return;
            }
            ++one->sent;
            self_->request(one->actor, store_timeout, order)
                .then([promise](const done& d) mutable { promise.deliver(d); },
                      [this, promise](const caf::error& e) mutable {
                        promise.deliver(done{false, self_->system().render(e)});
                      });
          },
          [this, promise](const caf::error& e) mutable {
            promise.deliver(done{false, self_->system().render(e)});
          });
  return promise;
}

} // namespace ranvier
