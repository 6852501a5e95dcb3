#pragma once
#include "actors/actor_facts.hpp"
#include "actors/ledger.hpp"
#include "actors/ledger_timers.hpp"
#include "messages/introspection.hpp"
#include "messages/joins.hpp"
#include "storage/writer.hpp"

#include <map>
#include <optional>

namespace ranvier {

/// With what the ledger says to itself.
using ledger_self = ledger_actor::extend<caf::reacts_to<write_now>, caf::reacts_to<write_acks>,
                                         caf::reacts_to<write_trial>, caf::reacts_to<compact_log>>;

struct ledger_state;
using ledger_pointer = ledger_self::stateful_pointer<ledger_state>;

/// Told whether its writes are durable; `problem` says why not.
using answer = std::function<void(bool ok, const std::string& problem)>;

/// The ledger actor's inside; see actors/ledger.hpp for its life.
class ledger_core {
public:
  ledger_core(ledger_self::pointer self, ledger_settings settings)
      : self_(self)
      , settings_(std::move(settings))
      , writer_({settings_.path,
                 settings_.stream_bytes,
                 settings_.consumers,
                 settings_.devices_per_user,
                 settings_.display_names,
                 {settings_.catch_up_events_per_room},
                 settings_.to_device_max_bytes,
                 settings_.servers})
      , facts_(self, "ledger", "", "engine", settings_.wall_ms()) {
    settings_.inbox->publish({}, writer_.inbox.bounds(), settings_.wall_ms());
    begin_life();
    settle_joins();
  }

  ledger_self::behavior_type make_behavior();
  void flush();
  void flush_all() {
    queue_acks();
    while (!waiting_.empty())
      flush();
  }

private:
  struct asker {
    storage::writer::job job;
    answer tell;
  };

  void ask(storage::writer::job job, answer tell);
  caf::typed_response_promise<done> ask_done(storage::writer::job job);
  caf::result<local<feed_outcome>> feed(const local<feed_batch>& batch);
  void gather(const delivered& ack);
  void queue_acks();
  void queue_ack(delivered ack);
  caf::result<local<quarantine_changed>> change(const local<change_quarantine>& what);
  caf::result<local<owed_dropped>> let_go(const local<let_go_owed>& what);
  caf::typed_response_promise<done> save(const local<save_gate>& what);
  caf::typed_response_promise<done> hold(const local<save_hold>& what);
  caf::result<local<inbound_outcome>> take(const local<inbound_transaction>& what);
  caf::result<done> acknowledge(const local<acknowledge_stream>& what);
  /// Runs `work`, answers what it made after the commit; `ok` false and `problem` if it isn't durable.
  template <class T> caf::result<local<T>> ask_for(std::function<T(storage::writer&, std::vector<log_entry>&)> work) {
    auto promise = self_->make_response_promise<local<T>>();
    auto outcome = std::make_shared<T>();
    ask([outcome, work](storage::writer& stores, std::vector<log_entry>& entries) { *outcome = work(stores, entries); },
        [promise, outcome](bool ok, const std::string& problem) mutable {
          if (!ok) {
            *outcome = T{};
            outcome->ok = false;
            outcome->problem = problem;
          }
          promise.deliver(make_local(std::move(*outcome)));
        });
    return promise;
  }
  // ledger_joins.cpp
  void settle_joins();
  caf::typed_response_promise<done> begin(const local<begin_join>& what);
  caf::typed_response_promise<done> drop(const local<drop_join>& what);
  caf::result<local<join_recorded>> record(const local<record_join>& what);
  caf::typed_response_promise<done> save(const local<save_join_progress>& what);
  caf::result<local<partial_join_ended>> complete(const local<complete_join>& what);
  caf::result<local<partial_join_ended>> end(const local<end_partial_join>& what);

  void begin_life();
  std::int64_t now_ms() const;
  void beat(const heartbeat& now);
  std::int64_t clock_jump(std::int64_t wall_ms);
  void health(const std::string& problem);
  void look_again();
  void arm_compaction();
  void compact();
  void tell_listener(storage::writer::group_result& group);
  description describe_me() const;

  ledger_self::pointer self_;
  ledger_settings settings_;
  storage::writer writer_;
  actor_facts facts_;
  commit_listener listener_;
  std::vector<asker> waiting_;
  std::map<std::string, delivered> acks_;
  bool flush_sent_ = false, acks_armed_ = false, trial_armed_ = false;
  bool compaction_armed_ = false;
  std::int64_t compacting_ms_ = 0; ///< spent on the current pass
  struct beat_moment {
    std::int64_t now_ms = 0, wall_ms = 0;
  };
  beat_moment last_beat_;
  position told_head_ = 0, told_stream_ = 0;
  std::uint64_t told_lost_updates_ = 0; ///< device updates that couldn't be stored
  std::uint64_t commits_ = 0, failures_ = 0, largest_group_ = 0;
  std::string problem_;
};

struct ledger_state {
  ledger_state() = default;
  std::optional<ledger_core> it;
};

} // namespace ranvier
