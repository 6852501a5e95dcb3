#include "actors/destination_core.hpp"

#include "actors/happenings.hpp"
#include "actors/log.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 30s; // a reader or the ledger
constexpr auto supervisor_timeout = 30s;
constexpr auto cancel_timeout = 30s; // the egress
constexpr std::int64_t rest_before_retirement_ms = 30'000;
constexpr std::int64_t store_retry_ms = 5'000;
constexpr std::int64_t longest_timer_ms = 300'000; // a delayed message can't be cancelled and keeps the actor's memory
constexpr std::int64_t longest_freeze_ms = 3'600'000; // then the transaction is cut anew (our exception to T3)

outbox_limits limits_from(const config& settings) {
  outbox_limits limits;
  limits.transaction_pdus = std::size_t(settings.limits.transaction_pdus);
  limits.transaction_edus = std::size_t(settings.limits.transaction_edus);
  limits.transaction_bytes = std::size_t(settings.limits.transaction_bytes);
  return limits;
}

courier_limits courier_limits_from(const config& settings) {
  courier_limits limits;
  limits.transaction_edus = std::size_t(settings.limits.transaction_edus);
  limits.transaction_bytes = std::size_t(settings.limits.transaction_bytes);
  limits.burst = double(settings.delivery.device_update_burst);
  limits.interval_ms = settings.delivery.device_update_interval_ms;
  limits.share_delay_ms = settings.delivery.join_update_delay_ms;
  return limits;
}

resync_limits resync_limits_from(const config& settings) {
  resync_limits limits;
  limits.lane = settings.backoff;
  return limits;
}

destination_actor::behavior_type behavior(destination_self self, const std::shared_ptr<const destination_parts>& parts,
                                          const supervisor_actor& supervisor, const destination_birth& birth) {
  self->set_exception_handler([self, name = birth.name](std::exception_ptr& thrown) -> caf::error {
    std::string what = "unknown";
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
    }
    log_error("destination_crashed", {{"destination", name}, {"why", what}});
    return caf::make_error(caf::sec::runtime_error, what);
  });
  self->state.core.emplace(self, parts, supervisor, birth);
  return self->state.core->make_behavior();
}

} // namespace

destination_actor spawn_destination(caf::actor_system& system, std::shared_ptr<const destination_parts> parts,
                                    supervisor_actor supervisor, destination_birth birth) {
  return system.spawn(behavior, std::move(parts), std::move(supervisor), std::move(birth));
}

destination_core::destination_core(destination_self self, std::shared_ptr<const destination_parts> parts,
                                   supervisor_actor supervisor, destination_birth birth)
    : self_(self)
    , parts_(std::move(parts))
    , supervisor_(std::move(supervisor))
    , birth_(std::move(birth))
    , facts_(self, "destination", birth_.name, "supervisor", parts_->wall_ms(), birth_.restarts)
    , outbox_(limits_from(parts_->settings))
    , lists_(courier_limits_from(parts_->settings))
    , resyncs_(resync_limits_from(parts_->settings),
               [parts = parts_, name = birth_.name] { return parts->uniform(name); })
    , owed_(birth_.owed)
    , extras_(birth_.owed) {
  row_.name = birth_.name;
  start();
}

destination_actor::behavior_type destination_core::make_behavior() {
  return {[this](const local<deliver>& d) { facts_.count(), ++received_, take(*d->entry); },
          [this](const local<http_answer>& a) { facts_.count(), answered(*a); },
          [this](const pull& p) { return facts_.count(), ++received_, request(p); },
          [this](const refresh_lists& r) { return facts_.count(), ++received_, refresh(r); },
          [this](const heard_from&) { facts_.count(), ++received_, heard(); },
          [this](const operate& o) { return facts_.count(), ++received_, obey(o); },
          [this](const announce& a) { return facts_.count(), ++received_, announce_us(a); },
          [this](const come_forward&) { facts_.count(), ++received_, come_forward_now(); },
          [this](const wind_down&) { return finish(); },
          [this](const tick& t) { on_tick(t); },
          [this](const describe& d) { return describe_self(d); }};
}

moment destination_core::now() const { return {now_ms(), parts_->wall_ms()}; }

std::int64_t destination_core::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self_->clock().now().time_since_epoch()).count();
}

/// A second incarnation first has the egress end what the first left: never two transactions in flight (guarantee 3).
void destination_core::start() {
  idle_since_ms_ = now_ms();
  if (birth_.restarts == 0) return load();
  self_->request(parts_->egress, cancel_timeout, make_local(cancel_calls{birth_.name}))
      .then([this](const done&) { load(); },
            [this](const caf::error& problem) { retry_load(self_->system().render(problem)); });
}

void destination_core::load() {
  self_->request(parts_->reader(birth_.name), store_timeout, make_local(load_destination{birth_.name}))
      .then([this](const local<loaded_destination>& found) { load_stale(*found); },
            [this](const caf::error& problem) { retry_load(self_->system().render(problem)); });
}

/// Which lists must be fetched, and who was refused until when, before anybody's wish is judged.
void destination_core::load_stale(const loaded_destination& found) {
  self_->request(parts_->reader(birth_.name), store_timeout, make_local(list_stale{birth_.name}))
      .then(
          [this, found](const local<stale_users>& stale) {
            resyncs_.load(stale->list, now());
            loaded(found);
          },
          [this](const caf::error& problem) { retry_load(self_->system().render(problem)); });
}

void destination_core::retry_load(const std::string& problem) {
  log_warning("destination_not_loaded", {{"destination", birth_.name}, {"why", problem}});
  retry_at_ms_ = now_ms() + store_retry_ms;
  arm();
}

void destination_core::loaded(const loaded_destination& found) {
  row_ = found.row;
  row_.name = birth_.name;
  gate_.emplace(
      parts_->settings.backoff, [parts = parts_, name = birth_.name] { return parts->uniform(name); }, row_.gate,
      row_.hold, false, now());
  outbox_.start_at(row_.at);
  poison_ = poison(found.nothing_passed);
  auto waiting = std::move(when_loaded_);
  when_loaded_.clear();
  for (auto& work : waiting)
    work();
  step();
}

/// What goes out next, if anything may: the frozen transaction, else a new one of what waits.
void destination_core::step() {
  if (!gate_ || finishing_) return;
  fetch_lists();
  if (in_flight_) return arm();
  if (dropping_) return drop_owed();
  const auto at = now();
  const auto allowed = gate_->may_send(at);
  outbox_.expire_ephemeral(at.wall_ms);
  if (allowed == pass::no) {
    settle_announcements(false);
    close_window();
    return arm();
  }
  if (allowed == pass::yes) wake_wanted_ = false;
  if (frozen_ && at.now_ms - frozen_since_ms_ > longest_freeze_ms) frozen_.reset();
  if (poison_.wants_empty()) return send_probe(at);
  if (frozen_) return send(*frozen_, allowed);
  if (outbox_.state() == outbox::phase::closed) {
    if (owed_ || allowed == pass::yes) subscribe_and_read();
    else if (wants_probe()) return send_probe(at);
    return arm();
  }
  if (outbox_.wants_read()) read_more();
  // A failing server gets no ephemeral EDUs (DESIGN section 4).
  const bool healthy = allowed == pass::yes;
  // What it is owed of device lists is read right before the transaction that carries it.
  if (reading_lists_ || lists_.wants_page(at, outbox_.senders())) return read_lists();
  if (outbox_.has_items(healthy) || lists_.has_page())
    return send(outbox_.build(parts_->settings.server_name, birth_.name, at.wall_ms, healthy,
                              lists_.take_page(outbox_.at().device_lists, at), bounds()),
                allowed);
  if (outbox_.state() == outbox::phase::live) owed_ = lists_.waits();
  if (!reading_ && wants_probe() && !healthy) return send_probe(at);
  // Behind everything that is really owed: an empty transaction, so that it hears of us.
  if (!reading_ && !announcements_.empty() && outbox_.state() == outbox::phase::live) return send_probe(at);
  arm();
}

/// Nothing durable waits, but there is a reason to see whether the server lives.
bool destination_core::wants_probe() const { return wake_wanted_ || outbox_.ephemeral() > 0; }

/// Without items, whatever has come into the window meanwhile.
void destination_core::send_probe(moment at) {
  send(outbox_.build(parts_->settings.server_name, birth_.name, at.wall_ms, false, {}, {.items = 0}),
       pass::yes_as_probe);
}

/// Nothing may go out now, so nothing is held: the log keeps it (a dead server costs no memory).
void destination_core::close_window() {
  outbox_.forget_short_lived();
  if (outbox_.state() == outbox::phase::closed && !subscribing_) return;
  if (outbox_.has_durable() || outbox_.state() == outbox::phase::reading || lists_.waits()) owed_ = true;
  drop_window();
}

/// The log is read again from the cursors.
void destination_core::drop_window() {
  extras_ = extras_ || outbox_.has_extras(); // these are read again too
  outbox_.drop();
  lists_.forget();
  subscribing_ = reading_ = reading_lists_ = false;
  ++subscription_;
  self_->send(supervisor_, unsubscribe{birth_.name});
}

void destination_core::subscribe_and_read() {
  if (subscribing_ || now_ms() < retry_at_ms_) return;
  subscribing_ = true;
  const auto mine = ++subscription_;
  self_->request(supervisor_, supervisor_timeout, subscribe{birth_.name})
      .then(
          [this, mine](const subscribed& answer) {
            if (mine != subscription_) return;
            subscribing_ = false;
            outbox_.begin_reading(answer.from, extras_);
            lists_.begin(outbox_.at().device_lists, answer.from);
            step();
          },
          [this, mine](const caf::error& problem) {
            if (mine != subscription_) return;
            subscribing_ = false;
            log_warning("destination_not_subscribed",
                        {{"destination", birth_.name}, {"why", self_->system().render(problem)}});
            retry_at_ms_ = now_ms() + store_retry_ms;
            arm();
          });
}

void destination_core::read_more() {
  if (reading_ || now_ms() < retry_at_ms_) return;
  reading_ = true;
  const auto mine = subscription_;
  auto failed = [this, mine](const std::string& problem) {
    if (mine != subscription_) return;
    reading_ = false;
    log_warning("owed_not_read", {{"destination", birth_.name}, {"why", problem}});
    retry_at_ms_ = now_ms() + store_retry_ms;
    arm();
  };
  self_->request(parts_->reader(birth_.name), store_timeout, make_local(outbox_.next_read(birth_.name)))
      .then(
          [this, mine, failed](const local<owed_items>& items) {
            if (mine != subscription_) return;
            if (!items->ok) return failed(items->problem);
            reading_ = false;
            outbox_.take_read(*items);
            if (outbox_.state() == outbox::phase::live) extras_ = false;
            step();
          },
          [this, failed](const caf::error& problem) { failed(self_->system().render(problem)); });
}

/// Called again when the answer is there; a transaction waits for it.
void destination_core::read_lists() {
  if (reading_lists_ || now_ms() < retry_at_ms_) return arm();
  reading_lists_ = true;
  const auto mine = subscription_;
  auto failed = [this, mine](const std::string& problem) {
    if (mine != subscription_) return;
    reading_lists_ = false;
    log_warning("device_updates_not_read", {{"destination", birth_.name}, {"why", problem}});
    retry_at_ms_ = now_ms() + store_retry_ms;
    arm();
  };
  auto question =
      lists_.question(birth_.name, outbox_.at().device_lists, outbox_.senders(), outbox_.to_device_waiting(), now());
  question.max_edus = std::min(question.max_edus, poison_.most_items());
  question.max_bytes = std::min(question.max_bytes, std::max<std::size_t>(1, poison_.most_bytes() / 2));
  self_->request(parts_->reader(birth_.name), store_timeout, make_local(std::move(question)))
      .then(
          [this, mine, failed](const local<device_updates>& page) {
            if (mine != subscription_) return;
            if (!page->ok) return failed(page->problem);
            reading_lists_ = false;
            lists_.take(*page, now());
            step();
          },
          [this, failed](const caf::error& problem) { failed(self_->system().render(problem)); });
}

void destination_core::take(const log_entry& entry) {
  idle_since_ms_ = now_ms();
  tell_step("entry", birth_.name,
            {{"position", std::to_string(entry.pos)}, {"room", entry.room_id}, {"subject", entry.subject}});
  if (entry.kind == entry_kind::stale) return lists_marked(entry);
  if (entry.kind == entry_kind::ephemeral) {
    if (gate_ && !gate_->open(lane::push) && entry.detail != "m.receipt") return arm();
    outbox_.add_ephemeral(entry);
    return step();
  }
  owed_ = true;
  // The end of a partial join owes it something below its cursors: the log is read again.
  if (entry.kind == entry_kind::partial_join) {
    extras_ = true;
    close_window();
    return step();
  }
  if (!gate_ || outbox_.state() == outbox::phase::closed) return step(); // it will be read; a probe may be due already
  lists_.note(entry);
  if (!outbox_.add_live(entry)) {
    // The window is full: from now on the log is read again, at the pace of the peer.
    drop_window();
  }
  step();
}

/// One timer, for the next moment at which something is due. An earlier one that is pending fires first and arms again.
void destination_core::arm() {
  const auto at = now();
  std::optional<std::int64_t> due;
  auto also = [&](std::int64_t moment_ms) { due = due ? std::min(*due, moment_ms) : moment_ms; };
  if (retry_at_ms_ > at.now_ms) also(retry_at_ms_);
  if (save_again_ms_ > 0) also(save_again_ms_);
  if (gate_ && !in_flight_)
    if (auto lists_due = lists_.next_due(at)) also(*lists_due);
  if (gate_ && !in_flight_ && (owed_ || frozen_ || wants_probe()))
    if (auto next = gate_->next_due(lane::push, at); next && *next > at.now_ms) also(*next);
  if (auto next = resyncs_.next_due(at)) also(*next);
  if (gate_ && resyncs_.next(at))
    if (auto next = gate_->next_due(lane::pull, at); next && *next > at.now_ms) also(*next);
  if (may_rest()) also(rests_at_ms());
  if (!due) return;
  const auto when = std::clamp(*due, at.now_ms + 1, at.now_ms + longest_timer_ms);
  if (armed_ && timer_due_ms_ <= when) return;
  armed_ = true;
  timer_due_ms_ = when;
  self_->delayed_send(self_, std::chrono::milliseconds(when - at.now_ms), tick{++timer_generation_});
}

void destination_core::on_tick(const tick& t) {
  if (t.generation != timer_generation_) return;
  armed_ = false;
  const auto at = now_ms();
  if (!gate_ && retry_at_ms_ > 0 && at >= retry_at_ms_) {
    retry_at_ms_ = 0;
    return start();
  }
  if (gate_ && save_again_ms_ > 0 && at >= save_again_ms_) {
    // Whether its interval was opened or closed by what couldn't be written, it is so now.
    save_again_ms_ = 0;
    save_gate_row(!gate_->open(lane::push), gate_->open(lane::push));
  }
  if (may_rest() && at >= rests_at_ms()) return ask_to_retire();
  step();
}

std::int64_t destination_core::rests_at_ms() const {
  return std::max(idle_since_ms_ + rest_before_retirement_ms, lists_.forgettable_at_ms(now()));
}

/// Nothing is under way, nothing waits that could go, nothing in memory would be lost.
bool destination_core::may_rest() const {
  return gate_ && saves_ == 0 && save_again_ms_ == 0 && !in_flight_ && !frozen_ && !owed_ && !subscribing_ &&
         !reading_ && !reading_lists_ && !asking_to_retire_ && pulls_.empty() && resyncs_.idle() && looking_up_ == 0 &&
         announcements_.empty() && !dropping_ && !outbox_.has_durable() && outbox_.ephemeral() == 0;
}

void destination_core::ask_to_retire() {
  asking_to_retire_ = true;
  auto stay = [this] {
    asking_to_retire_ = false;
    idle_since_ms_ = now_ms();
  };
  self_->request(supervisor_, supervisor_timeout, may_retire{birth_.name, received_})
      .then(
          [this, stay](const done& answer) {
            if (answer.ok) {
              tell_step("retires", birth_.name, {});
              return self_->quit(caf::exit_reason::user_shutdown);
            }
            stay();
            owed_ = true; // something came for us meanwhile
            step();
          },
          [this, stay](const caf::error&) { stay(), arm(); });
}

} // namespace ranvier
