#include "actors/join_attempt.hpp"

#include "actors/join_keys.hpp"
#include "actors/join_report.hpp"
#include "actors/log.hpp"
#include "messages/join_answer.hpp"
#include "messages/joins.hpp"

#include <deque>
#include <optional>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto write_timeout = 60s;
constexpr auto key_timeout = 30s;
constexpr auto beyond_pull = 10s; ///< a pull answers by itself within its own timeout
constexpr std::int64_t template_timeout_ms = 20'000;
constexpr std::int64_t notary_timeout_ms = 5'000;
constexpr std::int64_t max_answer_bytes = 100 << 20;
constexpr std::int64_t max_notary_bytes = 16 << 20;
/// After that no further candidate is begun with.
constexpr auto patience = 180s;
/// Events in one step, some milliseconds of work.
constexpr std::size_t step_events = 100;

using self_ptr = caf::event_based_actor*; ///< stateful_actor<holder>, in which the core lives

class join_attempt {
public:
  join_attempt(self_ptr self, ingress_parts parts, join_order order)
      : self_(self)
      , parts_(std::move(parts))
      , order_(std::move(order))
      , left_(order_.via.begin(), order_.via.end()) {}
  caf::behavior make_behavior();

private:
  void begin();
  void next_candidate();
  void template_answered(const pulled& got);
  void record_intent();
  void send_join(bool v2);
  void join_answered(const pulled& got, bool v2);
  void go_on();
  void ask_keys();
  void ask_notary(keys_wanted missing);
  void keys_known();
  void record();
  void recorded(const join_recorded& outcome);
  void failed_here(join_try what);
  void fail(int status, const std::string& body);
  void end();
  pull request_to(std::string method, std::string uri) const;
  template <class Then> void ask(pull what, Then then);
  void step() { self_->send(self_, tick{}); }

  self_ptr self_;
  const ingress_parts parts_;
  join_order order_;
  std::deque<std::string> left_, closed_; ///< candidates; those whose gate was closed come last, as probes
  bool probing_ = false, intent_ = false, looked_ = false, omit_ = false;
  caf::actor_clock::time_point begun_;
  std::vector<join_try> tries_;
  std::string server_; ///< the one that is asked now
  join_offer offer_;
  std::optional<join_answer> answer_;
  join_keys keys_;
  std::size_t keys_outstanding_ = 0;
};

struct holder {
  holder() = default;
  static inline const char* name = "join";
  std::optional<join_attempt> core;
};

caf::behavior join_attempt::make_behavior() {
  self_->set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& problem) {
      log_error("join_failed", {{"room", order_.wish.room_id}, {"problem", problem.what()}});
    } catch (...) {
      log_error("join_failed", {{"room", order_.wish.room_id}, {"problem", "unknown"}});
    }
    order_.exchange->respond_error(500, "M_UNKNOWN", "this join could not be worked on; it is a fault of ours");
    return caf::make_error(caf::sec::runtime_error, "join");
  });
  begun_ = self_->clock().now();
  begin();
  return {[this](const tick&) { go_on(); }};
}

/// A room that is full stays full: its joins are full ones (B94, P14).
void join_attempt::begin() {
  omit_ = order_.partial;
  if (!omit_) return next_candidate();
  self_->request(parts_.reader(), read_timeout, make_local(find_room{order_.wish.room_id}))
      .then(
          [this](const local<found_room>& room) {
            if (room->ours_joined && !room->partial) omit_ = false;
            next_candidate();
          },
          [this](const caf::error&) {
            fail(503, error_body("M_UNKNOWN", "no answer from the database in time; try again"));
          });
}

pull join_attempt::request_to(std::string method, std::string uri) const {
  pull out;
  out.destination = server_;
  out.method = std::move(method);
  out.uri = std::move(uri);
  return out;
}

template <class Then> void join_attempt::ask(pull what, Then then) {
  const auto within = std::chrono::milliseconds(what.timeout_ms) + beyond_pull;
  self_->request(parts_.supervisor, within, what)
      .then([then](const pulled& got) { then(got); },
            [then](const caf::error&) {
              pulled silent;
              silent.problem = "no answer came in time";
              then(silent);
            });
}

void join_attempt::next_candidate() {
  answer_.reset();
  keys_.clear();
  if (left_.empty() && !probing_) { // whoever waits for its gate may be probed: a user waits
    probing_ = true;
    left_.swap(closed_);
  }
  const bool late = self_->clock().now() - begun_ > patience;
  if (left_.empty() || late) {
    for (const auto& name : left_)
      tries_.push_back({name, 0, "", "wasn't asked: the others took too long", ""});
    const auto report = report_join(tries_, order_.wish.room_id);
    return fail(report.status, report.body);
  }
  server_ = left_.front();
  left_.pop_front();
  auto request = request_to("GET", make_join_uri(order_.wish));
  request.timeout_ms = std::min(template_timeout_ms, parts_.settings->partial_join.request_timeout_ms);
  request.may_probe = probing_;
  ask(std::move(request), [this](const pulled& got) { template_answered(got); });
}

void join_attempt::failed_here(join_try what) {
  log_info("join_refused", {{"room", order_.wish.room_id}, {"server", what.server}, {"why", what.words}});
  tries_.push_back(std::move(what));
  next_candidate();
}

void join_attempt::template_answered(const pulled& got) {
  if (got.not_sent && !probing_) {
    closed_.push_back(server_);
    return next_candidate();
  }
  if (got.status == 0) return failed_here({server_, 0, "", "couldn't be asked: " + got.problem, ""});
  if (got.status != 200) return failed_here(read_refusal(server_, "make_join", got.status, got.body.view()));
  offer_ = read_join_template(got.body.view(), order_.wish, *parts_.key, parts_.wall_ms());
  if (!offer_.problem.empty())
    return failed_here({server_, 200, "", "gave a make_join answer that can't be used: " + offer_.problem, ""});
  record_intent();
}

/// From the moment when send_join may go out we may be in the room, whatever becomes of us.
void join_attempt::record_intent() {
  const auto& wish = order_.wish;
  auto not_recorded = [this](const std::string& why) {
    fail(503, error_body("M_UNKNOWN", "the join could not be written down, so it wasn't begun: " + why));
  };
  self_
      ->request(parts_.ledger, write_timeout,
                make_local(begin_join{wish.room_id, wish.user_id, offer_.event_id, server_, parts_.wall_ms()}))
      .then(
          [this, not_recorded](const done& written) {
            if (!written.ok) return not_recorded(written.problem);
            intent_ = true;
            send_join(true);
          },
          [not_recorded](const caf::error&) { not_recorded("the database didn't answer in time"); });
}

void join_attempt::send_join(bool v2) {
  auto request = request_to("PUT", send_join_uri(order_.wish, offer_.event_id, v2, omit_));
  request.body = shared_text(offer_.event);
  request.timeout_ms = parts_.settings->partial_join.request_timeout_ms;
  request.max_answer_bytes = max_answer_bytes;
  request.may_probe = true;
  request.repeatable = false;
  ask(std::move(request), [this, v2](const pulled& got) { join_answered(got, v2); });
}

void join_attempt::join_answered(const pulled& got, bool v2) {
  if (got.status == 0) return failed_here({server_, 0, "", "didn't answer send_join: " + got.problem, ""});
  if (got.status != 200) {
    auto refusal = read_refusal(server_, "send_join", got.status, got.body.view());
    const bool unknown_path = got.status == 404 || refusal.errcode == "M_UNRECOGNIZED";
    if (v2 && unknown_path) return send_join(false); // J4: an old server
    return failed_here(std::move(refusal));
  }
  answer_.emplace(got.body, !v2, offer_, order_.wish, v2 && omit_);
  looked_ = false;
  step();
}

/// A step of reading, then of judging.
void join_attempt::go_on() {
  if (!answer_) return;
  if (!looked_) {
    if (answer_->look(step_events)) return step();
    looked_ = true;
    if (answer_->problem().empty()) return ask_keys();
  } else if (answer_->judge(keys_, step_events)) {
    return step();
  }
  if (answer_->problem().empty()) return record();
  failed_here({server_, 200, "", "gave a send_join answer that can't be used: " + answer_->problem(), ""});
}

/// Keys at hand, and those of the server itself, which was just there.
void join_attempt::ask_keys() {
  const auto wanted = answer_->wanted_keys();
  auto missing = std::make_shared<keys_wanted>();
  keys_outstanding_ = 1;
  auto one_came = [this, missing] {
    if (--keys_outstanding_ > 0) return;
    if (missing->empty()) keys_known();
    else ask_notary(std::move(*missing));
  };
  for (const auto& [server, ids] : wanted)
    for (const auto& [key_id, at_ms] : ids) {
      ++keys_outstanding_;
      const bool its_own = server == server_;
      auto got = [this, missing, one_came, its_own, server = server, key_id = key_id, at_ms = at_ms](std::string key) {
        if (!key.empty()) keys_[server][key_id] = std::move(key);
        else if (!its_own && server != order_.wish.server_name) (*missing)[server][key_id] = at_ms;
        one_came();
      };
      if (server == order_.wish.server_name && key_id == parts_.key->key_id()) {
        got(parts_.key->public_key());
        continue;
      }
      self_->request(parts_.keyring, key_timeout, get_key{server, key_id, at_ms, true, its_own})
          .then([got](const got_key& key) { got(key.key); }, [got](const caf::error&) { got(""); });
    }
  one_came();
}

/// The resident server as notary, once; what it doesn't know stays unverified (J8).
void join_attempt::ask_notary(keys_wanted missing) {
  auto request = request_to("POST", "/_matrix/key/v2/query");
  request.body = shared_text(notary_query(missing));
  request.timeout_ms = notary_timeout_ms;
  request.max_answer_bytes = max_notary_bytes;
  request.sign = false;
  ask(std::move(request), [this, missing = std::move(missing)](const pulled& got) {
    if (got.status == 200)
      for (auto& [server, keys] : read_notary_answer(got.body.view(), missing, parts_.wall_ms()))
        keys_[server].merge(keys);
    keys_known();
  });
}

void join_attempt::keys_known() { step(); }

void join_attempt::record() {
  auto what = answer_->take_record(server_);
  log_info("join_accepted", {{"room", what.room_id},
                             {"server", server_},
                             {"left_out", std::to_string(answer_->left_out())},
                             {"unverified", std::to_string(answer_->unverified())}});
  auto unknown = [this](const std::string& why) {
    fail(503, error_body("M_UNKNOWN", server_ + " accepted the join as " + offer_.event_id +
                                          ", but it could not be written down here: " + why + "; join again"));
  };
  self_->request(parts_.ledger, write_timeout, make_local(std::move(what)))
      .then(
          [this, unknown](const local<join_recorded>& outcome) {
            if (!outcome->ok) return unknown(outcome->problem);
            recorded(*outcome);
          },
          [unknown](const caf::error&) { unknown("the database didn't answer in time"); });
}

void join_attempt::recorded(const join_recorded& outcome) {
  order_.exchange->respond(200, answer_->take_answer(outcome.partial && answer_->members_omitted(), server_));
  end();
}

/// A failed join leaves nothing behind (B92).
void join_attempt::fail(int status, const std::string& body) {
  if (!intent_) {
    order_.exchange->respond(status, body, {});
    return end();
  }
  auto tell = [this, status, body] {
    order_.exchange->respond(status, body, {});
    end();
  };
  self_->request(parts_.ledger, write_timeout, make_local(drop_join{order_.wish.room_id, order_.wish.user_id}))
      .then([tell](const done&) { tell(); }, [tell](const caf::error&) { tell(); });
}

void join_attempt::end() {
  order_.held.reset();
  self_->quit();
}

} // namespace

void spawn_join_attempt(caf::actor_system& system, ingress_parts parts, join_order order) {
  system.spawn(
      [parts = std::move(parts), order = std::move(order)](caf::stateful_actor<holder>* self) -> caf::behavior {
        self->state.core.emplace(self, parts, order);
        return self->state.core->make_behavior();
      });
}

} // namespace ranvier
