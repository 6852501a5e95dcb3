#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// A program that is run beside us and ends with us: in the destructor at the latest, by the kernel if we are killed.
/// Made and destroyed on the main thread.
class child_process {
public:
  /// `words` begin with the program's path; both outputs go to the end of `output_file`. Throws std::runtime_error.
  child_process(const std::vector<std::string>& words, const std::string& output_file);
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  /// Whether it still runs.
  bool running();
  /// SIGTERM, and SIGKILL if it hasn't ended within so many ms; returns when it has ended.
  void end(std::int64_t within_ms);

private:
  pid_t pid_ = -1;
};

} // namespace ranvier
