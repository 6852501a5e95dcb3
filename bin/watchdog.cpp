#include "bin/watchdog.hpp"

#include "actors/log.hpp"

#include <systemd/sd-daemon.h>

#include <cstdint>

namespace ranvier {

watchdog::watchdog(std::function<bool()> alive)
    : alive_(std::move(alive)) {
  std::uint64_t interval_us = 0;
  if (sd_watchdog_enabled(0, &interval_us) <= 0 || interval_us == 0) return;
  thread_ = std::thread([this, pause = std::chrono::microseconds(interval_us / 2)] { run(pause); });
}

watchdog::~watchdog() {
  {
    std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void watchdog::run(std::chrono::microseconds pause) {
  std::unique_lock lock(mutex_);
  while (!end_) {
    lock.unlock();
    if (alive_()) sd_notify(0, "WATCHDOG=1");
    else log_error("watchdog_not_fed", {{"why", "supervisor or ledger doesn't answer"}});
    lock.lock();
    ended_.wait_for(lock, pause, [this] { return end_; });
  }
}

} // namespace ranvier
