#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ranvier {

/// Everything that /metrics shows, named in one table (metrics.cpp; docs/METRICS.md says the same). Counters may be
/// raised from any thread; actors and HTTP code count through this object, they don't know Prometheus.
class metrics {
public:
  enum class counter {
    transactions_sent,     ///< by outcome
    transactions_received, ///< by outcome
    pdus_sent,
    edus_sent,
    pdus_received,
    edus_received,
    feed_records, ///< by outcome
    actor_restarts,
    count_
  };
  metrics();
  ~metrics();
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  /// `label` is the value of the counter's one label, or empty for those that have none.
  void add(counter which, double amount = 1, const std::string& label = "");
  /// A gauge that is asked for when somebody reads: destinations by state and so on, set by whoever knows.
  void set(const std::string& gauge, const std::string& label, double value);
  /// The text exposition format.
  std::string render() const;

private:
  struct inside;
  std::unique_ptr<inside> inside_;
};

} // namespace ranvier
