// How the ledger makes the log small beside its work: one small commit after the other, with pauses between them.
#include "actors/ledger_core.hpp"
#include "actors/log.hpp"

#include <algorithm>

namespace ranvier {

namespace {
/// A step of so many ms is followed by a pause of this many times as long, so that the askers have the thread.
constexpr std::int64_t pause_for_each_ms = 3;
/// Likewise after a whole pass, within a limit.
constexpr std::int64_t rest_for_each_ms = 10, longest_rest_ms = 300'000;
} // namespace

/// Called after each commit; the timer is set only when there is something to look at.
void ledger_core::arm_compaction() {
  if (compaction_armed_ || !writer_.compact.due()) return;
  compaction_armed_ = true;
  const auto rest = std::min(compacting_ms_ * rest_for_each_ms, longest_rest_ms);
  compacting_ms_ = 0;
  self_->delayed_send(ledger_self{self_}, std::chrono::milliseconds(std::max(settings_.compact_after_ms, rest)),
                      compact_log{});
}

void ledger_core::compact() {
  compaction_armed_ = false;
  if (!problem_.empty()) return; // the first commit that works arms it again
  const auto began = now_ms();
  auto result = writer_.commit({[this](storage::writer& stores, std::vector<log_entry>&) {
    stores.compact_step(settings_.wall_ms(), {settings_.to_device_max_age_ms});
  }});
  if (!result.committed || !result.problems.front().empty()) {
    ++failures_;
    log_error("compaction_failed", {{"reason", result.problems.front()}});
    if (!result.committed) health(result.problems.front());
    return; // the next commit arms it again
  }
  ++commits_;
  const auto took = now_ms() - began;
  compacting_ms_ += took;
  if (!writer_.compact.under_way()) return arm_compaction();
  compaction_armed_ = true;
  self_->delayed_send(ledger_self{self_},
                      std::chrono::milliseconds(std::max(settings_.compact_pause_ms, took * pause_for_each_ms)),
                      compact_log{});
}

} // namespace ranvier
