#include "actors/ledger_core.hpp"
#include "actors/log.hpp"
#include "storage/dropping.hpp"
#include "storage/extra_store.hpp"
#include "storage/presence.hpp"
#include "storage/quarantine.hpp"

namespace ranvier {

using storage::writer;

void ledger_core::ask(writer::job job, answer tell) {
  facts_.count();
  waiting_.push_back({std::move(job), std::move(tell)});
  if (waiting_.size() >= settings_.max_group) {
    flush();
  } else if (!flush_sent_) {
    // It queues behind everything that is waiting in the mailbox already, so that all of it shares one commit.
    flush_sent_ = true;
    self_->send(ledger_self{self_}, write_now{});
  }
}

void ledger_core::flush() {
  if (waiting_.empty()) return;
  auto group = std::exchange(waiting_, {});
  std::vector<writer::job> jobs;
  jobs.reserve(group.size());
  for (auto& one : group)
    jobs.push_back(std::move(one.job));
  largest_group_ = std::max<std::uint64_t>(largest_group_, group.size());
  auto result = writer_.commit(jobs);
  if (result.committed) {
    ++commits_;
    // The readers may see it first, then the askers hear of it.
    const auto bounds = writer_.inbox.bounds();
    settings_.inbox->publish(writer_.inbox.take_ephemeral(), bounds, settings_.wall_ms());
    if (std::exchange(told_stream_, bounds.head) != bounds.head && settings_.on_stream) settings_.on_stream();
    health({});
    // B73: what goes wrong for one user only must not go unnoticed.
    if (const auto lost = writer_.lists.failures(); std::exchange(told_lost_updates_, lost) != lost)
      log_error("device_update_not_stored", {{"so_far", std::to_string(lost)}});
    tell_listener(result);
    arm_compaction();
  } else {
    ++failures_;
    health(result.problems.empty() ? "nothing could be committed" : result.problems.front());
  }
  for (std::size_t i = 0; i < group.size(); ++i)
    if (group[i].tell) group[i].tell(result.problems[i].empty(), result.problems[i]);
}

void ledger_core::health(const std::string& problem) {
  if (problem.empty() == problem_.empty()) return;
  problem_ = problem;
  if (problem.empty()) log_info("ledger_writes_again", {});
  else log_error("ledger_cannot_write", {{"reason", problem}});
  if (settings_.on_health) settings_.on_health(problem);
  if (!problem.empty()) look_again();
}

/// While writing fails somebody tries now and then, so that it is noticed when it works again, asked or not.
void ledger_core::look_again() {
  if (std::exchange(trial_armed_, true)) return;
  self_->delayed_send(ledger_self{self_}, std::chrono::milliseconds(settings_.look_again_ms), write_trial{});
}

void ledger_core::tell_listener(writer::group_result& group) {
  if (!listener_ || (group.entries.empty() && group.head == told_head_)) return;
  told_head_ = group.head;
  self_->send(listener_, make_local(committed{std::move(group.entries), group.head}));
}

caf::typed_response_promise<done> ledger_core::ask_done(writer::job job) {
  auto promise = self_->make_response_promise<done>();
  ask(std::move(job), [promise](bool ok, const std::string& problem) mutable { promise.deliver(done{ok, problem}); });
  return promise;
}

caf::result<local<feed_outcome>> ledger_core::feed(const local<feed_batch>& batch) {
  auto promise = self_->make_response_promise<local<feed_outcome>>();
  auto outcome = std::make_shared<feed_outcome>();
  ask(
      [this, batch, outcome](writer& stores, std::vector<log_entry>& entries) {
        auto result = stores.feed.apply(batch->lines, settings_.wall_ms(), entries);
        outcome->accepted = result.accepted;
        outcome->skipped = result.skipped;
        for (auto& one : result.rejected)
          outcome->rejected.push_back({one.line, one.errcode, one.error});
        outcome->head = stores.log.head();
      },
      [promise, outcome](bool ok, const std::string& problem) mutable {
        if (!ok) *outcome = feed_outcome{};
        outcome->ok = ok;
        outcome->problem = problem;
        promise.deliver(make_local(std::move(*outcome)));
      });
  return promise;
}

/// Acks of one destination merge; the newest gate counts.
void ledger_core::gather(const delivered& ack) {
  auto [found, fresh] = acks_.try_emplace(ack.destination, ack);
  if (!fresh) {
    auto& merged = found->second;
    merged.at.pdu = std::max(merged.at.pdu, ack.at.pdu);
    merged.at.device_lists = std::max(merged.at.device_lists, ack.at.device_lists);
    merged.at.to_device = std::max(merged.at.to_device, ack.at.to_device);
    merged.to_device.insert(merged.to_device.end(), ack.to_device.begin(), ack.to_device.end());
    merged.let_go += ack.let_go;
    merged.let_go_at.insert(merged.let_go_at.end(), ack.let_go_at.begin(), ack.let_go_at.end());
    merged.pdus.insert(merged.pdus.end(), ack.pdus.begin(), ack.pdus.end());
    merged.extras.insert(merged.extras.end(), ack.extras.begin(), ack.extras.end());
    merged.list_extras.insert(merged.list_extras.end(), ack.list_extras.begin(), ack.list_extras.end());
    merged.retried.insert(merged.retried.end(), ack.retried.begin(), ack.retried.end());
    merged.set_aside.insert(merged.set_aside.end(), ack.set_aside.begin(), ack.set_aside.end());
    merged.gate = ack.gate;
  }
  if (acks_armed_) return;
  acks_armed_ = true;
  self_->delayed_send(ledger_self{self_}, std::chrono::milliseconds(settings_.gather_acks_ms), write_acks{});
}

void ledger_core::queue_acks() {
  for (auto& [name, ack] : std::exchange(acks_, {}))
    queue_ack(std::move(ack));
}

void ledger_core::queue_ack(delivered ack) {
  auto kept = std::make_shared<const delivered>(std::move(ack));
  ask(
      [this, kept](writer& stores, std::vector<log_entry>&) {
        auto server = stores.names.server(kept->destination);
        const auto let_go = kept->let_go + stores.destinations.let_go_by(server, kept->let_go_at, kept->pdus);
        stores.destinations.acknowledge(server, kept->at, kept->to_device, let_go, kept->gate.last_success_ms,
                                        settings_.wall_ms());
        storage::extra_store(stores.db).acknowledge(server, kept->extras);
        storage::acknowledge_list_extras(stores.db, server, kept->list_extras);
        storage::quarantine refused(stores.db);
        refused.taken(server, kept->retried);
        for (const auto& one : kept->set_aside)
          if (const auto gone = refused.take(server, one, settings_.wall_ms()); gone > 0)
            stores.destinations.count_let_go(server, gone);
        stores.destinations.save_gate(server, kept->gate);
      },
      [this, kept](bool ok, const std::string&) {
        if (ok) return;
        // Not written: it waits for the next time, under what has come meanwhile.
        auto newer = acks_.find(kept->destination);
        if (newer == acks_.end()) {
          gather(*kept);
          return;
        }
        auto later = std::move(newer->second);
        acks_.erase(newer);
        gather(*kept);
        gather(later);
      });
}

/// A retried item is there to be read once this is answered; a dropped one counts as let go.
caf::result<local<quarantine_changed>> ledger_core::change(const local<change_quarantine>& what) {
  return ask_for<quarantine_changed>([what](writer& stores, std::vector<log_entry>&) {
    quarantine_changed out;
    storage::quarantine refused(stores.db);
    const auto row = what->retry ? refused.retry(what->row) : refused.drop(what->row);
    out.known = row.has_value();
    if (row) out.row = *row;
    if (row && !what->retry) stores.destinations.count_let_go(stores.names.server(row->destination), 1);
    return out;
  });
}

caf::result<local<owed_dropped>> ledger_core::let_go(const local<let_go_owed>& what) {
  if (auto ack = acks_.extract(what->destination)) queue_ack(std::move(ack.mapped()));
  return ask_for<owed_dropped>([this, what](writer& stores, std::vector<log_entry>&) {
    return storage::drop_owed(stores, what->destination, what->before_ms, settings_.catch_up_events_per_room,
                              settings_.wall_ms());
  });
}

caf::typed_response_promise<done> ledger_core::save(const local<save_gate>& what) {
  if (auto ack = acks_.extract(what->destination)) queue_ack(std::move(ack.mapped()));
  return ask_done([this, what](writer& stores, std::vector<log_entry>&) {
    auto server = stores.names.server(what->destination);
    auto head = stores.log.head();
    stores.destinations.ensure(server, head, settings_.wall_ms());
    if (what->opens_interval) stores.destinations.open_interval(server, head);
    if (what->closes_interval) stores.destinations.close_interval(server, head);
    stores.destinations.save_gate(server, what->gate);
  });
}

caf::typed_response_promise<done> ledger_core::hold(const local<save_hold>& what) {
  return ask_done([this, what](writer& stores, std::vector<log_entry>&) {
    auto server = stores.names.server(what->destination);
    auto now = settings_.wall_ms();
    stores.destinations.ensure(server, stores.log.head(), now);
    stores.destinations.save_hold(server, {what->set, what->reason, what->until_ms}, what->who, now);
  });
}

caf::result<local<inbound_outcome>> ledger_core::take(const local<inbound_transaction>& what) {
  auto promise = self_->make_response_promise<local<inbound_outcome>>();
  auto outcome = std::make_shared<inbound_outcome>();
  ask(
      [this, what, outcome](writer& stores, std::vector<log_entry>& entries) {
        if (auto old = stores.inbox.find_answer(what->origin, what->txn_id)) {
          outcome->repeated = true;
          outcome->answer = *old;
          return;
        }
        std::size_t bytes = 0;
        for (const auto& item : what->items)
          bytes += item.kind == "edu" ? 0 : item.json.size();
        if (!stores.inbox.has_room_for(bytes)) {
          outcome->full = true;
          return;
        }
        auto now = settings_.wall_ms();
        // Before the messages: whoever gets one may need the new list to read it.
        stores.lists.take(what->origin, what->device_changes, now, entries);
        std::size_t messages = 0;
        for (const auto& item : what->items) {
          if (item.kind == "to_device") {
            auto key = messages < what->message_keys.size() ? what->message_keys[messages] : std::string();
            ++messages;
            if (!key.empty() && !stores.inbox.take_message(key, now)) continue;
          }
          stores.inbox.append(item.kind, item.json, now);
        }
        stores.inbox.remember_answer(what->origin, what->txn_id, what->answer, now);
        if (auto server = stores.names.known_server(what->origin)) stores.destinations.heard_from(*server, now);
        outcome->answer = what->answer;
      },
      [promise, outcome](bool ok, const std::string& problem) mutable {
        if (!ok) *outcome = inbound_outcome{};
        outcome->ok = ok;
        outcome->problem = problem;
        promise.deliver(make_local(std::move(*outcome)));
      });
  return promise;
}

caf::result<done> ledger_core::acknowledge(const local<acknowledge_stream>& what) {
  return ask_done([what](writer& stores, std::vector<log_entry>&) {
    if (!stores.inbox.acknowledge(what->consumer, what->upto))
      throw storage::error("No consumer \"" + what->consumer + "\" is configured in [host] consumers");
  });
}

void ledger_core::begin_life() {
  last_beat_ = {now_ms(), settings_.wall_ms()};
  const auto silence = storage::begin_life(writer_.db, last_beat_.wall_ms, settings_.announce_after_ms);
  if (silence > 0) log_info("own_outage_ended", {{"silent_for_ms", std::to_string(silence)}});
}

std::int64_t ledger_core::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self_->clock().now().time_since_epoch()).count();
}

/// By how much the wall clock left the monotonic one since the last beat, if that was more than clocks are slewed by.
std::int64_t ledger_core::clock_jump(std::int64_t wall_ms) {
  const beat_moment now{now_ms(), wall_ms};
  const auto by = (now.wall_ms - last_beat_.wall_ms) - (now.now_ms - last_beat_.now_ms);
  last_beat_ = now;
  return std::abs(by) > settings_.clock_jump_ms ? by : 0;
}

void ledger_core::beat(const heartbeat& now) {
  const auto at_ms = now.at_ms;
  const auto jump = clock_jump(at_ms);
  if (jump != 0) log_warning("wall_clock_jumped", {{"by_ms", std::to_string(jump)}});
  ask(
      [this, at_ms, reached_ms = now.reached_ms, jump](writer& stores, std::vector<log_entry>&) {
        if (jump != 0) storage::shift_ages(stores.db, jump, at_ms);
        storage::write_heartbeat(stores.db, at_ms, reached_ms);
        stores.tidy(at_ms, {settings_.to_device_max_age_ms, settings_.device_changes_horizon_ms});
      },
      [this, jump](bool ok, const std::string&) {
        if (!ok) last_beat_.wall_ms -= jump; // it is found again by the next one
      });
}

description ledger_core::describe_me() const {
  auto view = facts_.view(problem_.empty() ? "ready" : "failing", waiting_.empty() ? "" : "a group commit");
  view["queue"] = waiting_.size();
  view["acks_gathered"] = acks_.size();
  view["head"] = writer_.log.head();
  view["commits"] = commits_;
  view["failed_commits"] = failures_;
  view["largest_group"] = largest_group_;
  view["device_updates_not_stored"] = writer_.lists.failures();
  view["stream"] = {{"head", writer_.inbox.bounds().head}, {"bytes", writer_.inbox.bytes()}};
  const auto& gone = writer_.compact.done();
  view["compaction"] = {{"under_way", writer_.compact.under_way()},
                        {"events", gone.events},
                        {"let_go", gone.let_go},
                        {"spans", gone.spans},
                        {"rooms", gone.rooms}};
  view["problem"] = problem_.empty() ? nlohmann::json() : nlohmann::json(problem_);
  return {view.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

ledger_self::behavior_type ledger_core::make_behavior() {
  return {
      [this](const local<listen>& who) {
        listener_ = who->to;
        told_head_ = writer_.log.head();
        self_->send(listener_, make_local(committed{{}, told_head_})); // from here on nothing is missed
        return done{};
      },
      [this](const local<feed_batch>& batch) { return feed(batch); },
      [this](const local<delivered>& ack) { gather(*ack); },
      [this](const local<change_quarantine>& what) { return change(what); },
      [this](const local<let_go_owed>& what) { return let_go(what); },
      [this](const local<save_gate>& what) { return save(what); },
      [this](const local<save_hold>& what) { return hold(what); },
      [this](const local<inbound_transaction>& what) { return take(what); },
      [this](const local<acknowledge_stream>& what) { return acknowledge(what); },
      [this](const local<save_keys>& what) {
        return ask_done([what](writer& stores, std::vector<log_entry>&) {
          for (const auto& key : what->keys)
            stores.keys.save({key.server, key.key_id, key.key, key.valid_until_ms, key.expired_ms});
        });
      },
      [this](const local<claim_own_keys>& what) {
        return ask_for<claimed_own_keys>([this, what](writer& stores, std::vector<log_entry>&) {
          return stores.devices.claim(*what, settings_.wall_ms());
        });
      },
      [this](const local<save_device_list>& what) {
        return ask_for<device_list_saved>([this, what](writer& stores, std::vector<log_entry>& entries) {
          return stores.lists.save(*what, settings_.wall_ms(), entries);
        });
      },
      [this](const local<mark_stale>& what) {
        return ask_done([this, what](writer& stores, std::vector<log_entry>& entries) {
          stores.lists.mark(*what, settings_.wall_ms(), entries);
        });
      },
      [this](const local<begin_join>& what) { return begin(what); },
      [this](const local<drop_join>& what) { return drop(what); },
      [this](const local<record_join>& what) { return record(what); },
      [this](const local<save_join_progress>& what) { return save(what); },
      [this](const local<complete_join>& what) { return complete(what); },
      [this](const local<end_partial_join>& what) { return end(what); },
      [this](const local<heartbeat>& at) { beat(*at); },
      [this](const local<announced>& what) {
        return ask_done(
            [what](writer& stores, std::vector<log_entry>&) { storage::end_announcement(stores.db, what->since_ms); });
      },
      [this](const describe&) { return describe_me(); },
      [this](const write_now&) {
        flush_sent_ = false;
        flush();
      },
      [this](const write_acks&) {
        acks_armed_ = false;
        queue_acks();
      },
      [this](const compact_log&) { compact(); },
      [this](const write_trial&) {
        trial_armed_ = false;
        if (problem_.empty()) return;
        beat({settings_.wall_ms()});
        look_again();
      },
  };
}

namespace {

ledger_self::behavior_type ledger_behavior(ledger_pointer self, ledger_settings settings) {
  self->set_exception_handler([](std::exception_ptr& failure) -> caf::error {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& cause) {
      log_error("ledger_failed", {{"reason", cause.what()}});
    } catch (...) {
      log_error("ledger_failed", {{"reason", "an exception without words"}});
    }
    return caf::make_error(caf::sec::runtime_error, "the ledger failed");
  });
  self->set_exit_handler([self](caf::exit_msg& end) {
    if (self->state.it) self->state.it->flush_all();
    self->quit(end.reason);
  });
  self->state.it.emplace(self, std::move(settings));
  return self->state.it->make_behavior();
}

} // namespace

ledger_actor spawn_ledger(caf::actor_system& system, ledger_settings settings, bool detached) {
  if (detached) return system.spawn<caf::detached>(ledger_behavior, std::move(settings));
  return system.spawn(ledger_behavior, std::move(settings));
}

} // namespace ranvier
