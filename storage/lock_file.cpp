#include "storage/lock_file.hpp"

#include "storage/database.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace ranvier::storage {

lock_file::lock_file(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) throw error("The lock file " + path + " can't be made: " + std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  bool taken = errno == EWOULDBLOCK;
  std::string why = std::strerror(errno);
  ::close(descriptor_);
  throw error(taken ? "Another ranvier runs on this data folder (it holds " + path +
                          "); stop it, or give another data_dir"
                    : "The lock file " + path + " can't be locked: " + why);
}

lock_file::~lock_file() { ::close(descriptor_); }

} // namespace ranvier::storage
