#include "actors/introspector.hpp"

#include "actors/actor_facts.hpp"
#include "actors/log.hpp"
#include "storage/dropping.hpp"
#include "storage/introspection.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto shape_within = 1200ms;  ///< the caller waits 1.8 s in all
constexpr auto waiting_within = 500ms; ///< its caller asks the supervisor too
constexpr auto told_again_from = 20ms; ///< what took longer to count isn't counted each time
constexpr auto told_again_for = 10s;

struct holder;
using self_pointer = introspector_actor::stateful_pointer<holder>;

class core {
public:
  core(introspector_actor::pointer self, introspector_settings settings)
      : self_(self)
      , settings_(std::move(settings))
      , db_(settings_.path, storage::database::mode::read)
      , facts_(self, "introspector", "", "engine", settings_.wall_ms()) {}

  introspector_actor::behavior_type make_behavior() {
    return {[this](const local<read_queue>& what) {
              return within<queue_page>([&] { return storage::queue_of(db_, *what, kept()); });
            },
            [this](const local<read_waiting>& what) { return waiting(*what); },
            [this](const local<read_drop>& what) {
              return within<drop_counts>([&] {
                return storage::plan_drop(db_, what->destination, what->after, what->before_ms, kept()).counts;
              });
            },
            [this](const local<read_rooms>& what) {
              return within<rooms_page>([&] { return storage::shared_rooms(db_, *what, kept()); });
            },
            [this](const local<read_shape>& what) { return within<shape_rows>([&] { return shape(*what); }); },
            [this](const local<trace_event>& what) {
              return within<event_trace>([&] { return storage::trace(db_, *what, kept()); });
            },
            [this](const local<trace_room>& what) {
              return within<room_trace>([&] { return storage::trace(db_, *what, kept()); });
            },
            [this](const local<trace_user>& what) {
              return within<user_trace>([&] { return storage::trace(db_, *what); });
            },
            [this](const describe&) {
              facts_.count();
              auto view = facts_.view("ready", "");
              view["failed_queries"] = failures_;
              return description{view.dump()};
            }};
  }

private:
  /// Runs a question in a snapshot; a failure is logged and becomes an error for the asker.
  template <class T, class F> caf::result<local<T>> within(F&& question) {
    facts_.count();
    try {
      storage::snapshot moment(db_);
      return make_local<T>(question());
    } catch (const std::exception& failed) {
      ++failures_;
      log_error("reader_cannot_read", {{"reason", failed.what()}});
      return caf::make_error(caf::sec::runtime_error, std::string(failed.what()));
    }
  }

  std::int64_t kept() const { return settings_.catch_up_events_per_room; }

  /// What took long to count is told again for a while: many may ask, and nobody needs it to the millisecond.
  caf::result<local<waiting_sums>> waiting(const read_waiting& what) {
    const auto began = self_->clock().now();
    if (counted_ && began < counted_again_) {
      auto old = *counted_;
      return make_local(std::move(old));
    }
    const auto end = began + waiting_within;
    const auto wall_ms = settings_.wall_ms();
    return within<waiting_sums>([&] {
      auto sums = storage::waiting_of(db_, what, kept(), [this, end] { return self_->clock().now() < end; });
      const auto took = self_->clock().now() - began;
      counted_.reset();
      if (took > told_again_from) {
        counted_ = sums;
        counted_->as_of_ms = wall_ms;
        counted_again_ = began + std::min<decltype(took)>(took * 20, told_again_for);
      }
      return sums;
    });
  }

  shape_rows shape(const read_shape& what) {
    const auto end = self_->clock().now() + shape_within;
    return storage::shape_of(db_, what, kept(), [this, end] { return self_->clock().now() < end; });
  }

  introspector_actor::pointer self_;
  introspector_settings settings_;
  storage::database db_;
  actor_facts facts_;
  std::uint64_t failures_ = 0;
  std::optional<waiting_sums> counted_;
  caf::actor_clock::time_point counted_again_{};
};

struct holder {
  holder() = default;
  static inline const char* name = "introspector";
  std::optional<core> it;
};

introspector_actor::behavior_type behavior(self_pointer self, introspector_settings settings) {
  self->state.it.emplace(self, std::move(settings));
  return self->state.it->make_behavior();
}

} // namespace

introspector_actor spawn_introspector(caf::actor_system& system, introspector_settings settings, bool detached) {
  if (detached) return system.spawn<caf::detached>(behavior, std::move(settings));
  return system.spawn(behavior, std::move(settings));
}

} // namespace ranvier
