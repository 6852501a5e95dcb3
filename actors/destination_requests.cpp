#include "actors/destination_core.hpp"

#include "actors/happenings.hpp"
#include "actors/log.hpp"
#include "messages/transaction.hpp"
#include "messages/x_matrix.hpp"

#include <algorithm>

// What a destination asks of its server, and what it makes of the answers.

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 30s;
constexpr std::size_t most_pulls = 200;
constexpr std::int64_t tell_again_ms = 60'000;
constexpr std::int64_t store_retry_ms = 5'000;

std::string request_name(const std::string& method, const std::string& uri) {
  auto path = uri.substr(0, uri.find('?'));
  for (const std::string prefix : {"/_matrix/federation/v1", "/_matrix/federation/v2", "/_matrix"})
    if (path.starts_with(prefix)) return method + " " + path.substr(prefix.size());
  return method + " " + path;
}

} // namespace

void destination_core::order(http_call call) {
  self_->send(parts_->egress, make_local(http_order{birth_.name, std::move(call), caf::actor_cast<http_asker>(self_)}));
}

void destination_core::send(built_transaction what, pass as) {
  const auto at = now();
  flight going{std::move(what), gate_->began(lane::push, at), ++last_call_, at.wall_ms};
  (void)as; // the ticket says whether it is the probe
  http_call call;
  call.id = going.call;
  call.destination = birth_.name;
  call.method = "PUT";
  call.uri = transaction_uri(going.what.id);
  call.body = going.what.body;
  call.authorization =
      x_matrix_header(call.method, call.uri, parts_->settings.server_name, birth_.name, call.body.view(), *parts_->key);
  call.via = lane::push;
  call.probe = going.pass.probe;
  call.timeout_ms = parts_->settings.delivery.request_timeout_ms;
  tell_step("request_begins", birth_.name,
            {{"request", "PUT /send"},
             {"transaction", going.what.id},
             {"pdus", std::to_string(going.what.pdus)},
             {"edus", std::to_string(going.what.edus)},
             {"bytes", std::to_string(call.body.view().size())},
             {"probe", call.probe ? "yes" : "no"}});
  in_flight_ = std::move(going);
  order(std::move(call));
}

/// Whether connecting works, for whoever judges our own uplink: at a change, and an answer once a minute besides.
void destination_core::tell_reachability(const http_answer& answer) {
  if (answer.cancelled) return;
  const bool unconnected =
      answer.status == 0 && (answer.stage == failure_stage::resolve || answer.stage == failure_stage::connect ||
                             answer.stage == failure_stage::tls);
  const bool reached = answer.status != 0;
  if (reached == unconnected) return; // it connected and fell silent: that says nothing about us
  const auto at = now_ms();
  if (told_reached_ == reached && (!reached || at - told_at_ms_ < tell_again_ms)) return;
  told_reached_ = reached;
  told_at_ms_ = at;
  self_->send(supervisor_, reachability{birth_.name, reached});
}

void destination_core::answered(const http_answer& answer) {
  tell_reachability(answer);
  if (in_flight_ && in_flight_->call == answer.id) push_answered(answer);
  else if (!list_answered(answer)) pull_answered(answer);
}

void destination_core::push_answered(const http_answer& answer) {
  wake_wanted_ = false;
  if (answer.cancelled) {
    frozen_ = std::move(in_flight_->what);
    frozen_since_ms_ = now_ms();
    follow(gate_->cancelled(in_flight_->pass, now()));
    in_flight_.reset();
    if (finishing_) finishing_->deliver(done{});
    return step();
  }
  judge_context about{"PUT /send", parts_->settings.delivery.request_timeout_ms, parts_->wall_ms(),
                      parts_->settings.backoff.max_ms};
  const auto why = classify_push(answer, about);
  attempt one{in_flight_->since_wall_ms, answer.took_ms,        "PUT /send", "ok", answer.status,
              in_flight_->what.pdus,     in_flight_->what.edus, "",          {},   answer.peer_address};
  if (why) {
    one.outcome = std::string(to_string(why->cls));
    one.problem = why->message;
  } else {
    one.refused = pdu_errors(answer.body.view());
    if (one.refused.size() > 5) one.refused.resize(5);
  }
  parts_->counters->add(metrics::counter::transactions_sent, 1, one.outcome);
  parts_->rates->add(parts_->wall_ms(), !why, answer.took_ms);
  told(one);
  attempts_.add(std::move(one));
  if (why) push_failed(answer, *why);
  else push_succeeded(answer);
  in_flight_.reset();
  if (finishing_) finishing_->deliver(done{});
  idle_since_ms_ = now_ms();
  step();
}

void destination_core::push_succeeded(const http_answer&) {
  const auto& what = in_flight_->what;
  outbox_.delivered(what);
  lists_.delivered(what.lists, outbox_.at().device_lists);
  frozen_.reset();
  poison_.passed(what.pdus + what.edus);
  auto change = gate_->succeeded(in_flight_->pass, now());
  row_.let_go += what.let_go;
  parts_->counters->add(metrics::counter::pdus_sent, double(what.pdus));
  parts_->counters->add(metrics::counter::edus_sent, double(what.edus));
  // An empty one that was owed after our outage is written down too: a success says that it is owed no longer.
  if (what.pdus + what.edus > 0 || !announcements_.empty()) {
    self_->send(parts_->ledger, make_local(delivered{birth_.name,
                                                     outbox_.at(),
                                                     what.to_device,
                                                     {},
                                                     0,
                                                     gate_->row(),
                                                     what.let_go_at,
                                                     what.events,
                                                     what.extras,
                                                     what.list_extras,
                                                     what.retried,
                                                     {}}));
    if (!change.push_opened && !change.pull_opened) change.save = false; // the ack carries the row
  }
  settle_announcements(true);
  follow(change);
}

void destination_core::push_failed(const http_answer& answer, const failure& why) {
  const auto& what = in_flight_->what;
  owed_ = owed_ || what.pdus + what.to_device.size() + what.lists.size() > 0 || outbox_.has_durable();
  switch (poison_.refused(why, what.id, what.pdus + what.edus, what.body.size())) {
  case poison::verdict::judge:
    keep_for_retry(answer);
    return follow(gate_->failed(in_flight_->pass, why, now(), answer.name_unknown));
  case poison::verdict::in_parts:
    frozen_.reset();
    drop_window();
    return follow(gate_->proved_nothing(in_flight_->pass, now()));
  case poison::verdict::set_aside:
    return set_aside(why);
  case poison::verdict::refuses_all:
    auto all = why;
    all.cls = failure_class::content_refused;
    all.item = what.sole.name;
    all.message = "it takes nothing of ours: " + why.message;
    keep_for_retry(answer);
    return follow(gate_->failed(in_flight_->pass, all, now()));
  }
}

/// Its bytes may have reached the peer: they go again as they are (T3).
void destination_core::keep_for_retry(const http_answer& answer) {
  if (answer.status == 0 && !answer.request_sent) return;
  // Silence after answers: from now on it may be at the peer, whose repeat would be under another id.
  const bool unsure = answer.status == 0;
  if (!frozen_ || (unsure && !frozen_unsure_)) frozen_since_ms_ = now_ms();
  frozen_unsure_ = unsure;
  frozen_ = std::move(in_flight_->what);
}

/// The one item in it goes to the quarantine with the server's words, in one commit with the step of the cursors; what
/// is only of this moment is dropped. The gate stays as it was.
void destination_core::set_aside(const failure& why) {
  const auto& what = in_flight_->what;
  outbox_.delivered(what);
  lists_.delivered(what.lists, outbox_.at().device_lists);
  frozen_.reset();
  const auto& item = what.sole;
  log_warning("item_refused", {{"destination", birth_.name},
                               {"kind", to_string(item.kind)},
                               {"item", item.name},
                               {"status", std::to_string(why.status)},
                               {"why", why.message}});
  if (item.kind == item_kind::ephemeral) {
    ++row_.let_go;
  } else {
    auto kept = item;
    if (!what.retried.empty()) kept.row = what.retried.front();
    self_->send(parts_->ledger, make_local(delivered{.destination = birth_.name,
                                                     .at = outbox_.at(),
                                                     .to_device = what.to_device,
                                                     .gate = gate_->row(),
                                                     .let_go_at = what.let_go_at,
                                                     .pdus = what.events,
                                                     .extras = what.extras,
                                                     .list_extras = what.list_extras,
                                                     .set_aside = {{kept, why.status, why.message}}}));
  }
  follow(gate_->proved_nothing(in_flight_->pass, now()));
}

/// Stores what the gate says, tells of a change of state once (B20), and lets everything that waited go.
void destination_core::follow(const gate_change& change) {
  if (change.save) save_gate_row(change.push_closed, change.push_opened);
  const auto& row = gate_->row();
  if (change.push_closed)
    log_info("destination_closed", {{"destination", birth_.name},
                                    {"class", std::string(to_string(row.push.last_error.cls))},
                                    {"stage", std::string(to_string(row.push.last_error.stage))},
                                    {"why", row.push.last_error.message},
                                    {"next_attempt_in_ms", std::to_string(row.push.interval_ms)}});
  if (change.push_opened) log_info("destination_open", {{"destination", birth_.name}});
}

void destination_core::save_gate_row(bool opens_interval, bool closes_interval) {
  ++saves_;
  auto over = [this](bool ok, const std::string& problem) {
    --saves_;
    if (ok) arm(); // it may rest now
    else gate_not_saved(problem);
  };
  self_
      ->request(parts_->ledger, store_timeout,
                make_local(save_gate{birth_.name, gate_->row(), opens_interval, closes_interval}))
      .then([over](const done& d) { over(d.ok, d.problem); },
            [this, over](const caf::error& problem) { over(false, self_->system().render(problem)); });
}

/// A full disk. If the interval of a closing never ended in storage, what came after it would be let go by rule K.
void destination_core::gate_not_saved(const std::string& why) {
  if (save_again_ms_ == 0) log_warning("gate_not_stored", {{"destination", birth_.name}, {"why", why}});
  save_again_ms_ = now_ms() + store_retry_ms;
  arm();
}

caf::result<pulled> destination_core::request(const pull& wanted) {
  idle_since_ms_ = now_ms();
  auto promise = self_->make_response_promise<pulled>();
  if (!gate_) {
    if (when_loaded_.size() >= most_pulls) return pulled{0, {}, "too many requests to " + birth_.name + " wait", 0};
    when_loaded_.push_back([this, wanted, promise] { start_pull(wanted, promise); });
    return promise;
  }
  start_pull(wanted, promise);
  return promise;
}

void destination_core::start_pull(const pull& wanted, caf::typed_response_promise<pulled> promise) {
  if (finishing_) {
    promise.deliver(pulled{0, {}, "the engine is stopping", 0, true});
    return;
  }
  const auto at = now();
  // What goes unsigned fetches a key for a verification; else a user waits: a claim, a join.
  const auto hurry = !wanted.may_probe ? urgency::none : wanted.sign ? urgency::user : urgency::key_fetch;
  if (pulls_.size() >= most_pulls) {
    promise.deliver(pulled{0, {}, "too many requests to " + birth_.name + " are under way", 0});
    return;
  }
  if (gate_->may_pull(at, hurry) == pass::no) {
    promise.deliver(pulled{0, {}, closed_sentence(), 0, true});
    return;
  }
  outstanding_pull going{wanted, gate_->began(lane::pull, at, hurry), promise};
  http_call call;
  call.id = ++last_call_;
  call.destination = birth_.name;
  call.method = wanted.method;
  call.uri = wanted.uri;
  call.body = wanted.body;
  if (wanted.sign)
    call.authorization = x_matrix_header(call.method, call.uri, parts_->settings.server_name, birth_.name,
                                         call.body.view(), *parts_->key);
  call.probe = going.pass.probe;
  call.timeout_ms = wanted.timeout_ms;
  call.max_answer_bytes = wanted.max_answer_bytes;
  call.repeatable = wanted.repeatable;
  pulls_.emplace(call.id, std::move(going));
  order(std::move(call));
}

/// For whoever traces this destination.
void destination_core::told(const attempt& one) const {
  tell_step("request_ended", birth_.name,
            {{"request", one.request},
             {"outcome", one.outcome},
             {"status", std::to_string(one.status)},
             {"took_ms", std::to_string(one.took_ms)},
             {"address", one.address},
             {"problem", one.problem}});
}

/// Tells the gate what an answer says of the server.
judged destination_core::judge_pull(const http_answer& answer, const ticket& pass, const std::string& name,
                                    std::int64_t timeout_ms) {
  if (answer.cancelled) {
    follow(gate_->cancelled(pass, now()));
    return {};
  }
  judge_context about{name, timeout_ms, parts_->wall_ms(), parts_->settings.backoff.max_ms};
  auto judged = classify_pull(answer, about);
  attempt one{parts_->wall_ms() - answer.took_ms,
              answer.took_ms,
              name,
              judged.is == verdict::failure ? std::string(to_string(judged.why.cls)) : "ok",
              answer.status,
              0,
              0,
              judged.why.message,
              {},
              answer.peer_address};
  told(one);
  attempts_.add(std::move(one));
  if (judged.is == verdict::success) follow(gate_->succeeded(pass, now()));
  else if (judged.is == verdict::failure) follow(gate_->failed(pass, judged.why, now(), answer.name_unknown));
  else follow(gate_->proved_nothing(pass, now()));
  return judged;
}

void destination_core::pull_answered(const http_answer& answer) {
  auto found = pulls_.find(answer.id);
  if (found == pulls_.end()) return; // of an earlier incarnation
  auto going = std::move(found->second);
  pulls_.erase(found);
  const bool in_haste = going.wanted.hasty && answer.status == 0 && answer.took_ms >= going.wanted.timeout_ms;
  if (in_haste) follow(gate_->proved_nothing(going.pass, now()));
  else judge_pull(answer, going.pass, request_name(going.wanted.method, going.wanted.uri), going.wanted.timeout_ms);
  going.promise.deliver(pulled{answer.status, answer.body, answer.problem, answer.took_ms});
  idle_since_ms_ = now_ms();
  step();
}

std::string destination_core::closed_sentence() const {
  const auto shown = gate_->view(now());
  std::string sentence = birth_.name + " is " + (shown.state == "open" ? "not to be asked now" : shown.state);
  const auto& row = gate_->row();
  const auto& error = row.push.closed ? row.push.last_error : row.pull.last_error;
  if (error.cls != failure_class::none) sentence += ": " + std::string(to_string(error.cls)) + ", " + error.message;
  return sentence;
}

} // namespace ranvier
