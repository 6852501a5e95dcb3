// Partial joins in the supervisor: an actor for each room, what is shown of them, and an operator's word.
#include "actors/supervisor_core.hpp"

#include "actors/log.hpp"
#include "messages/joins.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 10s;
constexpr auto describe_timeout = 5s, order_timeout = 30s;
/// The store couldn't be read: again after this.
constexpr std::int64_t read_again_ms = 2'000;
/// Crashes of one room's actor in an hour after which it is made anew only ten minutes later, or by an order.
constexpr int most_restarts = 20;
constexpr std::int64_t forgiven_after_ms = 3'600'000, left_alone_ms = 600'000;

nlohmann::json view_of(const partial_join_row& row) {
  auto servers = nlohmann::json::object();
  for (const auto& name : row.servers)
    servers[name] = {{"verdict", nullptr}, {"next_attempt_ms", nullptr}};
  return {{"room_id", row.room_id},       {"state", "waiting"},           {"since_ms", row.since_ms},
          {"joined_via", row.joined_via}, {"users", row.users},           {"event_id", row.event_id},
          {"generation", row.generation}, {"servers", std::move(servers)}};
}

description list_of(nlohmann::json rooms) {
  return {nlohmann::json{{"partial_joins", std::move(rooms)}}.dump(-1, ' ', false,
                                                                   nlohmann::json::error_handler_t::replace)};
}

} // namespace

/// Whoever is needed is there: the rooms that were joined partially before the start go on.
void supervisor_core::meet(const introduce& all) {
  others_ = all.others;
  if (!all.keyring || keyring_) return;
  keyring_ = all.keyring;
  look_after("");
}

/// What couldn't be read from the store a moment ago.
void supervisor_core::look_after_unread() {
  joins_due_ms_.reset();
  for (const auto& room_id : std::exchange(joins_unread_, {}))
    look_after(room_id);
}

/// A partial join began or ended there (empty: all): its actor lives just as long as its row.
void supervisor_core::look_after(const std::string& room_id) {
  if (stopping_ || !keyring_) return;
  self_->request(parts_.destinations->reader(room_id), store_timeout, make_local(list_partial_joins{room_id}))
      .then(
          [this, room_id](const local<partial_joins>& found) {
            for (const auto& row : found->rows)
              look_after(row);
            if (found->rows.empty() && !room_id.empty()) end_join(room_id);
          },
          [this, room_id](const caf::error& problem) {
            log_warning("partial_joins_not_read", {{"why", self_->system().render(problem)}});
            joins_unread_.insert(room_id);
            joins_due_ms_ = now_ms() + read_again_ms;
            arm();
          });
}

void supervisor_core::look_after(const partial_join_row& row) {
  auto& one = joins_[row.room_id];
  if (one.actor && one.generation == row.generation) { // another join of ours may have shown more servers
    caf::anon_send(one.actor, operate_join{row.room_id, "look", "", ""});
    return;
  }
  if (one.actor) end_join(row.room_id);
  auto& fresh = joins_[row.room_id];
  fresh.generation = row.generation;
  fresh.actor = spawn_partial_join(self_->system(),
                                   {parts_.destinations, caf::actor_cast<supervisor_actor>(self_), keyring_}, row);
  self_->monitor(fresh.actor);
}

void supervisor_core::end_join(const std::string& room_id) {
  const auto found = joins_.find(room_id);
  if (found == joins_.end()) return;
  if (found->second.actor) {
    self_->demonitor(caf::actor_cast<caf::actor_addr>(found->second.actor));
    self_->send_exit(found->second.actor, caf::exit_reason::user_shutdown);
  }
  joins_.erase(found);
}

/// It is over, or it crashed: then its row is still there.
void supervisor_core::join_ended(const caf::down_msg& down) {
  for (auto& [room_id, one] : joins_) {
    if (!one.actor || one.actor->id() != down.source.id()) continue;
    one.actor = nullptr;
    if (stopping_) return;
    if (down.reason == caf::exit_reason::user_shutdown) {
      joins_.erase(room_id);
      return;
    }
    ++restarts_;
    if (now_ms() - one.crashed_ms > forgiven_after_ms) one.restarts = 0;
    one.crashed_ms = now_ms();
    one.generation = 0;
    if (!std::exchange(one.ordered, false) && ++one.restarts > most_restarts) {
      log_error("partial_join_left_alone", {{"room", room_id},
                                            {"why", self_->system().render(down.reason)},
                                            {"again_in_ms", std::to_string(left_alone_ms)}});
      joins_unread_.insert(room_id);
      joins_due_ms_ = std::min(joins_due_ms_.value_or(now_ms() + left_alone_ms), now_ms() + left_alone_ms);
      return arm();
    }
    return look_after(std::string(room_id));
  }
}

caf::result<description> supervisor_core::describe_partial_joins(const local<describe_joins>& which) {
  auto promise = self_->make_response_promise<description>();
  self_
      ->request(parts_.destinations->reader(which->room_id), store_timeout,
                make_local(list_partial_joins{which->room_id}))
      .then(
          [this, promise](const local<partial_joins>& found) mutable {
            auto rooms = std::make_shared<nlohmann::json>(nlohmann::json::array());
            auto missing = std::make_shared<std::size_t>(1);
            auto one_came = [rooms, missing, promise]() mutable {
              if (--*missing == 0) promise.deliver(list_of(std::move(*rooms)));
            };
            for (std::size_t i = 0; i < found->rows.size(); ++i) {
              rooms->push_back(view_of(found->rows[i]));
              const auto known = joins_.find(found->rows[i].room_id);
              if (known == joins_.end() || !known->second.actor) continue;
              ++*missing;
              self_->request(known->second.actor, describe_timeout, describe{})
                  .then(
                      [rooms, i, one_came](const description& said) mutable {
                        const auto view = nlohmann::json::parse(said.json, nullptr, false);
                        for (const auto* member : {"state", "servers", "reason", "abandoned_at_ms"})
                          if (view.is_object() && view.contains(member)) (*rooms)[i][member] = view[member];
                        one_came();
                      },
                      [one_came](const caf::error&) mutable { one_came(); });
            }
            one_came();
          },
          [promise](caf::error& problem) mutable { promise.deliver(std::move(problem)); });
  return promise;
}

caf::result<done> supervisor_core::pass_on(const operate_join& order) {
  const auto found = joins_.find(order.room_id);
  if (found != joins_.end() && found->second.actor) {
    if (order.verb != "restart") return self_->delegate(found->second.actor, order);
    found->second.ordered = true;
    self_->send_exit(found->second.actor, caf::exit_reason::kill); // join_ended makes it anew
    return done{};
  }
  // None runs; but if its row is there it crashed too often, and an order is a reason to try once more.
  auto promise = self_->make_response_promise<done>();
  self_
      ->request(parts_.destinations->reader(order.room_id), store_timeout,
                make_local(list_partial_joins{order.room_id}))
      .then(
          [this, order, promise](const local<partial_joins>& rows) mutable {
            if (rows->rows.empty() || stopping_ || !keyring_) {
              promise.deliver(done{false, "no partial join of " + order.room_id + " is under way"});
              return;
            }
            look_after(rows->rows.front());
            if (order.verb == "restart") {
              promise.deliver(done{});
              return;
            }
            self_->request(joins_[order.room_id].actor, order_timeout, order)
                .then([promise](const done& said) mutable { promise.deliver(said); },
                      [promise](caf::error& problem) mutable { promise.deliver(std::move(problem)); });
          },
          [promise](caf::error& problem) mutable { promise.deliver(std::move(problem)); });
  return promise;
}

} // namespace ranvier
