#pragma once
#include <string>

namespace ranvier::storage {

/// Two engines on one data folder would send everything twice: whoever holds <data_dir>/lock is the only one. The
/// kernel frees it when the process ends, however it ends.
class lock_file {
public:
  /// Throws storage::error with a sentence if another process holds it, or the file can't be made.
  explicit lock_file(const std::string& path);
  ~lock_file();
  lock_file(const lock_file&) = delete;
  lock_file& operator=(const lock_file&) = delete;

private:
  int descriptor_ = -1;
};

} // namespace ranvier::storage
