#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier {

/// Something that happened, as it was logged: a stable slug and fields.
struct happening {
  std::uint64_t number = 0; ///< of this process, from 1
  std::int64_t at_ms = 0;   ///< wall clock
  std::string level, slug;
  std::vector<std::pair<std::string, std::string>> fields;
  bool detail = false; ///< one step of many: only for whoever traces
  /// One JSON object: number, at_ms, level, event and the fields.
  std::string json() const;
  bool concerns(const std::string& destination) const;
};

/// The last things that happened, for GET /events and /trace: every log line from level info on, whatever the log
/// shows, and while somebody traces also each step. Bounded, the newest are kept. Any thread.
class happenings {
public:
  static happenings& of_process();

  void add(happening one);
  /// Steps are worth telling: somebody traces.
  bool traced() const { return traces_ > 0; }

  /// Those after `number`, at most `limit`; if there are none it waits for one, at most so long. With a destination
  /// only what concerns it. `number` moves on over those that were looked at.
  std::vector<std::shared_ptr<const happening>> after(std::uint64_t& number, const std::string& destination,
                                                      bool details, std::chrono::milliseconds within);
  /// The number before the last `count` that are kept.
  std::uint64_t before_last(std::size_t count) const;

  /// While it lives, steps are told.
  class trace {
  public:
    explicit trace(happenings& of);
    ~trace();
    trace(const trace&) = delete;
    trace& operator=(const trace&) = delete;

  private:
    happenings& of_;
  };

private:
  static constexpr std::size_t kept = 2'000;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const happening>> list_;
  std::uint64_t last_ = 0;
  std::atomic<int> traces_{0};
};

/// A step of a destination, told only while somebody traces: costs one look otherwise.
void tell_step(std::string_view slug, const std::string& destination,
               const std::vector<std::pair<std::string_view, std::string>>& fields);

} // namespace ranvier
