#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ranvier {

/// A file that is written anew now and then, on a thread of its own: of several texts the newest counts. Its loss costs
/// nothing but time, so it isn't synced; a failure is logged once. Thread-safe; the destructor writes what waits.
class fact_file {
public:
  explicit fact_file(std::string path);
  ~fact_file();
  fact_file(const fact_file&) = delete;
  fact_file& operator=(const fact_file&) = delete;

  /// The text that is there now; empty if there is none, or it can't be read. Blocks.
  std::string load() const;
  void save(std::string text);

private:
  void run();
  void write(const std::string& text);

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> waiting_;
  bool ending_ = false, failed_ = false;
  std::thread thread_;
};

} // namespace ranvier
