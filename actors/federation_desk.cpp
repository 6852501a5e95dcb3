// Inbound transactions inside the ingress actor: authenticate, look up rooms and keys, judge, store, answer.
#include "actors/federation_api.hpp"
#include "actors/log.hpp"
#include "actors/metrics.hpp"
#include "messages/verbatim_numbers.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto key_timeout = 40s; ///< the keyring may read and then fetch
constexpr auto read_timeout = 10s;
constexpr auto write_timeout = 60s;
constexpr std::int64_t come_back_ms = 5'000; ///< what a 429 asks for

std::string limited_body() {
  return R"({"errcode":"M_LIMIT_EXCEEDED","error":"one transaction of yours is in work here and more wait; send )"
         R"(the next after an answer","retry_after_ms":)" +
         std::to_string(come_back_ms) + "}";
}

} // namespace

/// Over our own spelling of the body, or, if its numbers could be spelt otherwise, over what the peer wrote (B103).
bool federation_desk::signed_by(const std::string& key, const incoming& in) const {
  const auto& exchange = *in.exchange;
  const auto fits = [&](std::string_view content) {
    return verify_signature(
        key, in.auth.signature,
        x_matrix_bytes(exchange.method, exchange.target, in.auth.origin, parts_.settings->server_name, content));
  };
  if (fits(in.content)) return true;
  if (!has_odd_numbers(exchange.body)) return false;
  try {
    return fits(canonical_body_verbatim(exchange.body));
  } catch (const json_problem&) {
    return false;
  }
}

void federation_desk::take(const local<incoming>& in) {
  const auto& auth = in->auth;
  self_->request(parts_.keyring, key_timeout, get_key{auth.origin, auth.key_id, parts_.wall_ms(), false, true})
      .then(
          [this, in](const got_key& key) {
            const auto& x = in->auth;
            const auto& exchange = *in->exchange;
            std::string problem;
            if (key.key.empty()) {
              problem = "the key " + x.key_id + " of " + x.origin + " can't be had: " + key.problem;
            } else if (!signed_by(key.key, *in)) {
              problem = "the signature of this request is wrong";
            }
            in->content = {};
            if (problem.empty()) return authenticated(in);
            ++counted.unauthorized;
            if (exchange.route.name == "send") count("refused");
            if (log_unauthorized_.allow(parts_.wall_ms()))
              log_info("request_unauthorized", {{"origin", x.origin}, {"peer", exchange.peer}, {"problem", problem}});
            in->exchange->respond_error(401, "M_UNAUTHORIZED", problem); // A6, A7
          },
          [in](const caf::error&) {
            in->exchange->respond_error(503, "M_UNKNOWN", "your key could not be looked up in time; try again",
                                        {{"Retry-After", "5"}});
          });
}

void federation_desk::authenticated(const local<incoming>& in) {
  const auto& origin = in->auth.origin;
  self_->send(parts_.supervisor, heard_from{origin}); // evidence of life, whatever becomes of the content
  const auto& exchange = in->exchange;
  if (exchange->route.name == "upstream") return upstream_->pass(exchange, origin);
  if (join_desk::is_for_residents(exchange->route.name))
    return joins_.serve(exchange, [this, exchange, origin] {
      if (upstream_) upstream_->pass(exchange, origin);
      else exchange->respond_error(404, "M_UNRECOGNIZED", "there is no such endpoint here");
    });
  exchange->body = {};
  if (exchange->route.name != "send") return keys_.serve(in);
  const auto& txn_id = in->exchange->route.segments.at("txnId");
  auto& mine = lanes_[origin];
  if (mine.current && mine.current->txn_id == txn_id) return mine.current->askers.push_back(in->exchange);
  for (auto& one : mine.waiting)
    if (one->txn_id == txn_id) return one->askers.push_back(in->exchange);
  if (mine.current &&
      mine.waiting.size() >= static_cast<std::size_t>(parts_.settings->limits.inbound_transactions_per_origin)) {
    ++counted.limited;
    count("limited");
    return in->exchange->respond(429, limited_body(), {{"Retry-After", std::to_string(come_back_ms / 1000)}}); // T10
  }
  auto added = std::make_shared<job>();
  added->origin = origin;
  added->txn_id = txn_id;
  added->in = in;
  added->askers.push_back(in->exchange);
  if (mine.current) return mine.waiting.push_back(std::move(added));
  mine.current = added;
  run(added, &federation_desk::start);
}

void federation_desk::start(const job_ptr& one) {
  auto parts = open_transaction(one->in->document->root(), one->origin);
  if (!parts.problem.empty()) {
    const auto status = parts.status;
    count("refused");
    return finish(one, status, error_body(parts.errcode, parts.problem));
  }
  one->judge = std::make_unique<inbound_judge>(std::move(parts), one->origin, parts_.settings->server_name);
  ask_rooms(one);
}

/// Called once for each answer that a step waits for, and once for the step itself.
void federation_desk::step_done(const job_ptr& one, void (federation_desk::*next)(const job_ptr&)) {
  if (--one->outstanding > 0) return;
  if (!one->problem.empty()) return unavailable(one, one->problem);
  run(one, next);
}

/// What a step throws costs this transaction, not the actor and with it everybody's.
void federation_desk::run(const job_ptr& one, void (federation_desk::*step)(const job_ptr&)) {
  try {
    (this->*step)(one);
  } catch (const std::exception& problem) {
    log_error("transaction_failed", {{"origin", one->origin}, {"problem", problem.what()}});
    ++counted.failed;
    count("failed");
    finish(one, 500, error_body("M_UNKNOWN", "this transaction could not be worked on; it is a fault of ours"));
  }
}

void federation_desk::ask_rooms(const job_ptr& one) {
  const auto wanted = one->judge->rooms();
  one->outstanding = wanted.size() + 1;
  for (const auto& room_id : wanted)
    self_->request(parts_.reader(), read_timeout, make_local(find_room{room_id}))
        .then(
            [this, one, room_id](const local<found_room>& room) {
              one->rooms[room_id] = {room->version, room->acl};
              step_done(one, &federation_desk::ask_keys);
            },
            [this, one](const caf::error&) {
              one->problem = "a room could not be looked up";
              step_done(one, &federation_desk::ask_keys);
            });
  step_done(one, &federation_desk::ask_keys);
}

void federation_desk::ask_keys(const job_ptr& one) {
  const auto wanted = one->judge->look(std::move(one->rooms));
  one->outstanding = wanted.size() + 1;
  for (const auto& key : wanted)
    self_->request(parts_.keyring, key_timeout, get_key{key.server, key.key_id, key.valid_at_ms, true, true})
        .then(
            [this, one, key](const got_key& got) {
              one->keys[key] = got.key;
              step_done(one, &federation_desk::store);
            },
            // No answer in time is as good as no key: the event goes on as not verified (null).
            [this, one](const caf::error&) { step_done(one, &federation_desk::store); });
  step_done(one, &federation_desk::store);
}

void federation_desk::store(const job_ptr& one) {
  auto result = one->judge->judge(one->keys);
  counted.pdus += result.pdus;
  counted.edus += result.edus;
  if (parts_.counters) {
    parts_.counters->add(metrics::counter::pdus_received, static_cast<double>(result.pdus));
    parts_.counters->add(metrics::counter::edus_received, static_cast<double>(result.edus));
  }
  counted.items_refused += result.refused.size();
  if (!result.refused.empty() && log_refused_.allow(parts_.wall_ms()))
    log_info("inbound_refused", {{"origin", one->origin},
                                 {"items", std::to_string(result.refused.size())},
                                 {"first", result.refused.front()},
                                 {"held_back", std::to_string(log_refused_.suppressed())}});
  const bool has_items = !result.items.empty();
  auto write = make_local(inbound_transaction{one->origin, one->txn_id, std::move(result.answer),
                                              std::move(result.items), std::move(result.message_keys), parts_.wall_ms(),
                                              std::move(result.device_changes)});
  self_->request(parts_.ledger, write_timeout, write)
      .then([this, one, has_items](const local<inbound_outcome>& outcome) { stored(one, *outcome, has_items); },
            [this, one](const caf::error&) { unavailable(one, "the transaction could not be stored in time"); });
}

void federation_desk::stored(const job_ptr& one, const inbound_outcome& outcome, bool has_items) {
  if (outcome.full) return unavailable(one, "what waits for the host has reached its limit");
  if (!outcome.ok) return unavailable(one, "the transaction could not be stored: " + outcome.problem);
  ++counted.transactions;
  if (outcome.repeated) ++counted.repeated;
  count(outcome.repeated ? "repeated" : "ok");
  finish(one, 200, outcome.answer);
  if (has_items && !outcome.repeated) stream_moved_();
}

void federation_desk::unavailable(const job_ptr& one, const std::string& why) {
  ++counted.failed;
  count("failed");
  finish(one, 503, error_body("M_UNKNOWN", why + "; keep it and try again"), {{"Retry-After", "30"}});
}

void federation_desk::finish(const job_ptr& one, int status, const std::string& text, const http_headers& extra) {
  for (auto& asker : one->askers)
    asker->respond(status, text, extra);
  one->askers.clear();
  const auto mine = lanes_.find(one->origin);
  if (mine == lanes_.end() || mine->second.current != one) return;
  if (mine->second.waiting.empty()) {
    lanes_.erase(mine);
    return;
  }
  auto next = std::move(mine->second.waiting.front());
  mine->second.waiting.pop_front();
  mine->second.current = next;
  run(next, &federation_desk::start);
}

void federation_desk::count(const char* outcome) {
  if (parts_.counters) parts_.counters->add(metrics::counter::transactions_received, 1, outcome);
}

std::size_t federation_desk::in_work() const {
  std::size_t n = 0;
  for (const auto& [origin, one] : lanes_)
    n += 1 + one.waiting.size();
  return n;
}

} // namespace ranvier
