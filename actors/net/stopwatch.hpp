#pragma once
#include <chrono>
#include <cstdint>

namespace ranvier {

/// How long something takes, in real time: for the threads of the listeners only.
class stopwatch {
public:
  std::int64_t ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_).count();
  }

private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

} // namespace ranvier
