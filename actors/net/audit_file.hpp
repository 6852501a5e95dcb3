#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ranvier {

/// One change by an operator.
struct audit_line {
  std::int64_t at_ms = 0;      ///< wall clock
  std::string who, verb;       ///< who as the caller says; verb: the call's name (hold, drop, resync...)
  std::string subject;         ///< a destination, a user, a room, an id; empty: the engine
  std::string reason, details; ///< details: what else was asked for, as JSON
  std::string outcome;         ///< "done", or why not
  std::string text() const;    ///< one line of JSON without its end
};

/// How much of it is kept: `files` of about so many bytes each.
struct audit_limits {
  std::int64_t file_bytes = 4 << 20;
  int files = 5; ///< audit.log, audit.log.1 (the one before it) and so on
};

/// The audit log `<data_dir>/audit.log`: a line of JSON for each change, appended and synced. It isn't in the database,
/// so that it can be written, and read with anything, when that can't. One that is full becomes audit.log.1; the oldest
/// goes. Thread-safe.
class audit_file {
public:
  explicit audit_file(std::string path, audit_limits limits = {})
      : path_(std::move(path))
      , limits_(limits) {}

  /// Blocks until it is on the disk. A problem in a sentence, or empty: what was done stays done, so it isn't thrown.
  std::string record(const audit_line& line);

  /// The newest lines, newest first, after `skipped` of them; `total` is how many there are. Broken ones (a crash while
  /// writing) are passed over. Reads no more than the end of the log for it; the first call counts the whole.
  std::vector<audit_line> newest(std::size_t limit, std::size_t skipped, std::size_t& total) const;

private:
  struct counted {
    std::int64_t bytes = 0; ///< of the file, looked at so far
    std::size_t lines = 0;
  };
  std::string name_of(int number) const;
  void rotate();
  std::size_t count_all() const;

  const std::string path_;
  const audit_limits limits_;
  mutable std::mutex mutex_; ///< guards the files and what is known of them
  mutable std::map<int, counted> counted_;
};

} // namespace ranvier
