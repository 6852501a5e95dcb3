// One candidate's attempt: which events the state has, those that are missing, whose keys signed them.
#include "actors/partial_join_core.hpp"

#include "messages/allowed_servers.hpp"
#include "messages/ids.hpp"
#include "messages/join_rules.hpp"
#include "messages/x_matrix.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto beyond_pull = 10s; ///< a pull answers by itself within its own timeout
constexpr auto key_timeout = 30s;
constexpr std::int64_t max_answer_bytes = 100 << 20;
constexpr std::int64_t notary_timeout_ms = 10'000;
constexpr std::int64_t max_notary_bytes = 16 << 20;
/// Events that are asked for at a time.
constexpr std::size_t at_once = 4;
/// Events whose signatures are judged in one step.
constexpr std::size_t judged_at_once = 200;

/// What an answer that isn't 200 says of its server.
std::pair<candidate_answer, std::string> verdict_on(const pulled& got, const std::string& what) {
  if (got.status == 0) return {candidate_answer::unreachable, got.problem};
  const auto says = "answered " + what + " with " + std::to_string(got.status);
  const bool its_fault = got.status >= 500 || got.status == 429;
  return {its_fault ? candidate_answer::server_error : candidate_answer::refused, says};
}

} // namespace

template <class Then> void partial_join_core::ask(const attempt_ptr& one, std::string uri, Then then) {
  pull what;
  what.destination = one->server;
  what.method = "GET";
  what.may_probe = std::exchange(one->may_probe, false);
  what.uri = std::move(uri);
  what.timeout_ms = parts_.common->settings.partial_join.request_timeout_ms;
  what.max_answer_bytes = max_answer_bytes;
  self_->request(parts_.supervisor, std::chrono::milliseconds(what.timeout_ms) + beyond_pull, what)
      .then([then](const pulled& got) { then(got); },
            [then](const caf::error&) {
              pulled silent;
              silent.problem = "no answer came in time";
              then(silent);
            });
}

void partial_join_core::ask_ids(const attempt_ptr& one) {
  const auto& who = parts_.common->settings.federation;
  if (server_is_denied(who.allow, who.deny, one->server)) // nothing that waiting would change
    return failed(one, candidate_answer::refused, "we don't ask it: [federation] allow or deny excludes it");
  one->state.emplace(row_.room_id, *rules_, known_, references_of(row_.event, "prev_events"));
  if (one->state->asked_at().empty())
    return failed(one, candidate_answer::invalid, "the join event has no prev_events to ask about");
  ask(one,
      "/_matrix/federation/v1/state_ids/" + percent_encode(row_.room_id) +
          "?event_id=" + percent_encode(one->state->asked_at()),
      [this, one](const pulled& got) {
        if (is_late(one)) return;
        if (got.status != 200) {
          const auto [verdict, why] = verdict_on(got, "/state_ids");
          return failed(one, verdict, why);
        }
        if (auto problem = one->state->take_ids(got.body.view()); !problem.empty())
          return failed(one, candidate_answer::invalid, problem);
        ask_missing(one);
      });
}

void partial_join_core::ask_missing(const attempt_ptr& one) {
  if (one->state->wants_whole()) return ask_whole(one);
  ask_events(one);
}

void partial_join_core::ask_whole(const attempt_ptr& one) {
  ask(one,
      "/_matrix/federation/v1/state/" + percent_encode(row_.room_id) +
          "?event_id=" + percent_encode(one->state->asked_at()),
      [this, one](const pulled& got) {
        if (is_late(one)) return;
        if (got.status != 200) {
          const auto [verdict, why] = verdict_on(got, "/state");
          return failed(one, verdict, why);
        }
        if (auto problem = one->state->take_state(got.body.view()); !problem.empty())
          return failed(one, candidate_answer::invalid, problem);
        ask_events(one); // a prev_event may be left
      });
}

void partial_join_core::ask_events(const attempt_ptr& one) {
  const auto& missing = one->state->missing();
  one->to_ask.assign(missing.begin(), missing.end());
  if (one->to_ask.empty()) return ask_keys(one);
  one->outstanding = std::min(at_once, one->to_ask.size());
  for (std::size_t i = one->outstanding; i > 0; --i) {
    const auto id = one->to_ask.front();
    one->to_ask.pop_front();
    ask(one, "/_matrix/federation/v1/event/" + percent_encode(id),
        [this, one, id](const pulled& got) { event_answered(one, id, got); });
  }
}

void partial_join_core::event_answered(const attempt_ptr& one, const std::string& id, const pulled& got) {
  if (is_late(one)) return;
  --one->outstanding;
  if (one->problem.empty()) {
    if (got.status == 200) {
      one->problem = one->state->take_event(got.body.view(), id);
      if (!one->problem.empty()) one->verdict = candidate_answer::invalid;
    } else if (one->state->is_optional(id) && got.status >= 400 && got.status < 500) {
      one->state->do_without(id);
    } else {
      std::tie(one->verdict, one->problem) = verdict_on(got, "/event/" + id);
    }
  }
  if (one->problem.empty() && !one->to_ask.empty()) {
    const auto next = one->to_ask.front();
    one->to_ask.pop_front();
    ++one->outstanding;
    return ask(one, "/_matrix/federation/v1/event/" + percent_encode(next),
               [this, one, next](const pulled& answer) { event_answered(one, next, answer); });
  }
  if (one->outstanding > 0) return;
  if (!one->problem.empty()) return failed(one, one->verdict, one->problem);
  ask_keys(one);
}

/// Keys at hand and the server's own; those that are missing of it as notary in one batch, then of their owners.
void partial_join_core::ask_keys(const attempt_ptr& one) {
  auto missing = std::make_shared<keys_wanted>();
  one->outstanding = 1;
  auto one_came = [this, one, missing] {
    if (--one->outstanding > 0 || is_late(one)) return;
    if (missing->empty()) judge(one);
    else ask_notary(one, std::move(*missing));
  };
  for (const auto& [server, ids] : one->state->wanted_keys())
    for (const auto& [key_id, at_ms] : ids) {
      if (server == parts_.common->settings.server_name) {
        if (key_id == parts_.common->key->key_id()) one->keys[server][key_id] = parts_.common->key->public_key();
        continue;
      }
      ++one->outstanding;
      const bool its_own = server == one->server;
      auto got = [one, missing, one_came, its_own, server = server, key_id = key_id, at_ms = at_ms](std::string key) {
        if (!key.empty()) one->keys[server][key_id] = std::move(key);
        else if (!its_own) (*missing)[server][key_id] = at_ms;
        one_came();
      };
      self_->request(parts_.keyring, key_timeout, get_key{server, key_id, at_ms, true, its_own})
          .then([got](const got_key& key) { got(key.key); }, [got](const caf::error&) { got(""); });
    }
  one_came();
}

void partial_join_core::ask_notary(const attempt_ptr& one, keys_wanted missing) {
  pull what;
  what.destination = one->server;
  what.method = "POST";
  what.uri = "/_matrix/key/v2/query";
  what.body = shared_text(notary_query(missing));
  what.timeout_ms = notary_timeout_ms;
  what.max_answer_bytes = max_notary_bytes;
  what.sign = false;
  auto owners = [this, one](keys_wanted left) {
    one->outstanding = 1;
    auto one_came = [this, one] {
      if (--one->outstanding == 0 && !is_late(one)) judge(one);
    };
    for (const auto& [server, ids] : left)
      for (const auto& [key_id, at_ms] : ids) {
        ++one->outstanding;
        auto got = [one, one_came, server = server, key_id = key_id](std::string key) {
          if (!key.empty()) one->keys[server][key_id] = std::move(key);
          one_came();
        };
        self_->request(parts_.keyring, key_timeout, get_key{server, key_id, at_ms, true, true})
            .then([got](const got_key& key) { got(key.key); }, [got](const caf::error&) { got(""); });
      }
    one_came();
  };
  self_->request(parts_.supervisor, std::chrono::milliseconds(what.timeout_ms) + beyond_pull, what)
      .then(
          [this, one, missing, owners](const pulled& answer) {
            if (is_late(one)) return;
            auto left = missing;
            if (answer.status == 200)
              for (auto& [server, keys] : read_notary_answer(answer.body.view(), missing, wall_ms()))
                for (auto& [key_id, key] : keys) {
                  if (key.empty()) continue;
                  left[server].erase(key_id);
                  one->keys[server][key_id] = std::move(key);
                }
            owners(std::move(left));
          },
          [this, one, missing, owners](const caf::error&) {
            if (!is_late(one)) owners(missing);
          });
}

/// A large state has signatures for seconds of work: some at a time, so that the room's actor hears others between.
void partial_join_core::judge(const attempt_ptr& one) {
  if (is_late(one)) return;
  if (auto problem = one->state->judge(one->keys, judged_at_once); !problem.empty())
    return failed(one, candidate_answer::invalid, problem);
  if (one->state->judged()) return complete(one);
  to_judge_.push_back(one);
  self_->send(self_, tick{judge_more});
}

void partial_join_core::go_on_judging() {
  if (to_judge_.empty()) return;
  const auto one = to_judge_.front();
  to_judge_.pop_front();
  judge(one);
}

} // namespace ranvier
