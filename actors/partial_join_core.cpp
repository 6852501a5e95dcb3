#include "actors/partial_join_core.hpp"

#include "actors/log.hpp"
#include "messages/join_rules.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 60s;
constexpr std::int64_t store_retry_ms = 5'000;
constexpr std::int64_t heard_again_ms = 60'000;
/// A delayed message can't be cancelled; a wall clock that jumps is noticed after this at the latest.
constexpr std::int64_t longest_timer_ms = 600'000;
/// One that has to leave waits so long for what its asker wants to know.
constexpr auto leave_within = 2s;

join_plan_settings plan_settings(const partial_join_parts& parts, const std::string& room_id) {
  join_plan_settings out;
  out.abandon_after_ms = parts.common->settings.partial_join.abandon_after_ms;
  out.uniform = [common = parts.common, room_id] { return common->uniform(room_id); };
  return out;
}

partial_join_actor::behavior_type behavior(partial_join_self self, const partial_join_parts& parts,
                                           const partial_join_row& row) {
  self->set_exception_handler([self, room = row.room_id](std::exception_ptr& thrown) -> caf::error {
    std::string what = "unknown";
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
    }
    log_error("partial_join_crashed", {{"room", room}, {"why", what}});
    if (self->state.core) self->state.core->answer_askers(false, "the partial join of " + room + " crashed: " + what);
    return caf::make_error(caf::sec::runtime_error, what);
  });
  self->state.core.emplace(self, parts, row);
  return self->state.core->make_behavior();
}

} // namespace

partial_join_actor spawn_partial_join(caf::actor_system& system, partial_join_parts parts, partial_join_row row) {
  return system.spawn(behavior, std::move(parts), std::move(row));
}

partial_join_core::partial_join_core(partial_join_self self, partial_join_parts parts, partial_join_row row)
    : self_(self)
    , parts_(std::move(parts))
    , row_(std::move(row))
    , facts_(self, "partial_join", row_.room_id, "supervisor", parts_.common->wall_ms())
    , rules_(rules_of(row_.room_version))
    , plan_(row_.servers, plan_settings(parts_, row_.room_id), row_.progress)
    , saved_progress_(row_.progress) {
  self_->set_exit_handler([this](const caf::exit_msg& word) { leave(word.reason); });
  begin();
}

partial_join_actor::behavior_type partial_join_core::make_behavior() {
  return {[this](const heard_from& h) {
            facts_.count();
            heard(h.server);
          },
          [this](const operate_join& o) { return facts_.count(), obey(o); },
          [this](const tick& t) {
            if (t.generation == judge_more) return go_on_judging();
            if (t.generation != timer_generation_) return;
            if (leaving_) return quit_now("the ledger didn't say in time whether the partial join is over");
            timer_due_ms_ = 0;
            ready_ ? step() : begin();
          },
          [this](const describe&) { return describe_me(); }};
}

/// What the join's answer had needn't be asked for again.
void partial_join_core::begin() {
  self_->request(parts_.common->reader(row_.room_id), store_timeout, make_local(read_join_events{row_.room_id, true}))
      .then(
          [this](const local<join_events>& found) {
            known_ = found->events;
            ready_ = true;
            step();
          },
          [this](const caf::error& problem) {
            log_warning("partial_join_not_read", {{"room", row_.room_id}, {"why", self_->system().render(problem)}});
            self_->delayed_send(self_, std::chrono::milliseconds(store_retry_ms), tick{++timer_generation_});
          });
}

void partial_join_core::step() {
  if (!ready_ || ending_) return;
  if (!rules_) return abandon("the room version " + row_.room_version + " isn't known here");
  const auto now = wall_ms();
  if (plan_.hopeless(now)) return abandon("every server of the room refuses: " + plan_.summary());
  for (const auto& server : plan_.next(now, row_.joined_via)) {
    auto one = std::make_shared<attempt>();
    one->server = server;
    one->may_probe = hurried_.erase(server) > 0;
    running_[server] = one;
    ask_ids(one);
  }
  arm();
}

/// It lives, or seems to: a candidate that was silent is asked at once, as a probe if its gate is still closed.
void partial_join_core::heard(const std::string& server) {
  if (!plan_.is_unreachable(server) || running_.contains(server)) return;
  auto& last = heard_ms_[server];
  if (last != 0 && wall_ms() - last < heard_again_ms) return;
  last = wall_ms();
  hurried_.insert(server);
  plan_.bring_forward(server, last);
  step();
}

void partial_join_core::arm() {
  if (ending_) return;
  auto due = plan_.next_due();
  if (auto end = plan_.hopeless_at(); end && (!due || *end < *due)) due = end;
  if (!due) return;
  const auto now = wall_ms();
  const auto when = std::clamp(*due, now + 1, now + longest_timer_ms);
  if (timer_due_ms_ != 0 && timer_due_ms_ <= when) return;
  timer_due_ms_ = when;
  self_->delayed_send(self_, std::chrono::milliseconds(when - now), tick{++timer_generation_});
}

void partial_join_core::failed(const attempt_ptr& one, candidate_answer verdict, const std::string& why) {
  if (is_late(one)) return;
  running_.erase(one->server);
  log_info(
      "partial_join_try_failed",
      {{"room", row_.room_id}, {"server", one->server}, {"verdict", std::string(to_string(verdict))}, {"why", why}});
  plan_.answered(one->server, verdict, why, wall_ms());
  save_progress();
  step();
}

/// A lost one costs a question more.
void partial_join_core::save_progress() {
  auto now = plan_.progress();
  if (now == saved_progress_) return;
  saved_progress_ = now;
  self_
      ->request(parts_.common->ledger, store_timeout,
                make_local(save_join_progress{row_.room_id, row_.generation, std::move(now)}))
      .then([](const done&) {}, [](const caf::error&) {});
}

void partial_join_core::complete(const attempt_ptr& one) {
  if (is_late(one)) return;
  ending_ = true;
  plan_.answered(one->server, candidate_answer::ok, "", wall_ms());
  auto what = one->state->take();
  what.room_id = row_.room_id;
  what.generation = row_.generation;
  what.servers = plan_.verdicts();
  what.reason = "the full state came from " + one->server;
  if (const auto& bad = one->state->left_out(); !bad.empty())
    what.reason += "; " + std::to_string(bad.size()) + " of its events can't be used and are left out, such as " +
                   bad.begin()->first + ": " + bad.begin()->second;
  auto again = [this, one](const std::string& why) {
    log_error("partial_join_not_completed", {{"room", row_.room_id}, {"why", why}});
    ending_ = false;
    running_.erase(one->server);
    plan_.bring_forward(one->server, wall_ms() + store_retry_ms);
    arm();
  };
  self_->request(parts_.common->ledger, store_timeout, make_local(std::move(what)))
      .then(
          [this, one, again](const local<partial_join_ended>& outcome) {
            if (!outcome->ok) return again(outcome->problem);
            log_info("partial_join_complete", {{"room", row_.room_id},
                                               {"server", one->server},
                                               {"unverified", std::to_string(one->state->unverified())},
                                               {"left_out", std::to_string(one->state->left_out().size())},
                                               {"affected", std::to_string(outcome->affected.size())}});
            self_->quit(caf::exit_reason::user_shutdown);
          },
          [this, again](const caf::error& problem) { again(self_->system().render(problem)); });
}

void partial_join_core::abandon(const std::string& reason) {
  ending_ = true;
  auto over = [this, reason](bool ok, const std::string& problem) {
    answer_askers(ok, problem);
    if (ok) log_warning("partial_join_abandoned", {{"room", row_.room_id}, {"why", reason}});
    else log_error("partial_join_not_abandoned", {{"room", row_.room_id}, {"why", problem}});
    if (leaving_) return quit_now("");
    if (ok) return self_->quit(caf::exit_reason::user_shutdown);
    ending_ = false;
    timer_due_ms_ = wall_ms() + store_retry_ms;
    self_->delayed_send(self_, std::chrono::milliseconds(store_retry_ms), tick{++timer_generation_});
  };
  self_
      ->request(parts_.common->ledger, store_timeout,
                make_local(end_partial_join{row_.room_id, row_.generation, reason, plan_.verdicts()}))
      .then([over](const local<partial_join_ended>& outcome) { over(outcome->ok, outcome->problem); },
            [this, over](const caf::error& problem) { over(false, self_->system().render(problem)); });
}

void partial_join_core::answer_askers(bool ok, const std::string& problem) {
  for (auto& one : std::exchange(askers_, {}))
    one.deliver(done{ok, problem});
}

/// The supervisor's word that it is over often overtakes the ledger's answer: whoever had it ended is told that first.
void partial_join_core::leave(const caf::error& reason) {
  leaving_ = reason;
  if (askers_.empty()) return quit_now("");
  self_->delayed_send(self_, leave_within, tick{++timer_generation_});
}

void partial_join_core::quit_now(const std::string& problem) {
  answer_askers(false, problem);
  self_->quit(*leaving_);
}

/// Another user of ours joined through another server, whose answer may have named more of them.
void partial_join_core::look_for_candidates() {
  self_->request(parts_.common->reader(row_.room_id), store_timeout, make_local(list_partial_joins{row_.room_id}))
      .then(
          [this](const local<partial_joins>& found) {
            if (found->rows.empty() || found->rows.front().generation != row_.generation) return;
            plan_.add(found->rows.front().servers);
            step();
          },
          [this](const caf::error& problem) {
            log_warning("partial_join_not_read", {{"room", row_.room_id}, {"why", self_->system().render(problem)}});
          });
}

caf::result<done> partial_join_core::obey(const operate_join& order) {
  if (ending_) return done{false, "the partial join of " + row_.room_id + " is ending"};
  if (order.verb == "look") return look_for_candidates(), done{};
  log_info("operator", {{"room", row_.room_id}, {"verb", order.verb}, {"who", order.who}, {"reason", order.reason}});
  if (order.verb == "retry") {
    plan_.bring_forward("", wall_ms());
    step();
    return done{};
  }
  if (order.verb != "abandon") return done{false, "a partial join can't be told to " + order.verb};
  auto promise = self_->make_response_promise<done>();
  askers_.push_back(promise);
  abandon(order.reason.empty() ? "given up by hand" : "given up by hand: " + order.reason);
  return promise;
}

description partial_join_core::describe_me() const {
  auto view = facts_.view(ending_            ? "ending"
                          : running_.empty() ? "waiting"
                                             : "fetching",
                          running_.empty() ? "" : "state from " + running_.begin()->first);
  auto servers = nlohmann::json::object();
  const auto turns = plan_.turns();
  for (const auto& [name, how] : plan_.verdicts()) {
    const auto turn = turns.at(name);
    servers[name] = {{"verdict", how.verdict.empty() ? nlohmann::json() : nlohmann::json(how.verdict)},
                     {"reason", how.reason.empty() ? nlohmann::json() : nlohmann::json(how.reason)},
                     {"next_attempt_ms", turn > 0 ? nlohmann::json(turn) : nlohmann::json()}};
  }
  view["servers"] = std::move(servers);
  view["reason"] = plan_.summary();
  const auto end = plan_.hopeless_at();
  view["abandoned_at_ms"] = end ? nlohmann::json(*end) : nlohmann::json();
  return {view.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

} // namespace ranvier
