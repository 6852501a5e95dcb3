#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ranvier {

/// Feeds the service manager's watchdog (systemd's WatchdogSec) for as long as `alive` says yes; it is asked twice in
/// each interval, on a thread of this object, and must end by itself. Without a watchdog (no WATCHDOG_USEC for this
/// process) there is no thread. Lives from the engine's start to its end.
class watchdog {
public:
  explicit watchdog(std::function<bool()> alive);
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

private:
  void run(std::chrono::microseconds pause);

  std::function<bool()> alive_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

} // namespace ranvier
