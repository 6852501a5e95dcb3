#pragma once
#include <cstdint>
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

/// The audit log `<data_dir>/audit.log`: a line of JSON for each change, only ever appended to, and synced. It isn't in
/// the database, so that it can be written, and read with anything, when that can't. Thread-safe.
class audit_file {
public:
  explicit audit_file(std::string path)
      : path_(std::move(path)) {}

  /// Blocks until it is on the disk. A problem in a sentence, or empty: what was done stays done, so it isn't thrown.
  std::string record(const audit_line& line);

  /// The newest lines, newest first, after `skipped` of them; `total` is how many there are. Broken ones (a crash while
  /// writing) are passed over.
  std::vector<audit_line> newest(std::size_t limit, std::size_t skipped, std::size_t& total) const;

private:
  const std::string path_;
  mutable std::mutex mutex_;
};

} // namespace ranvier
