#include "storage/backup.hpp"

#include "storage/database.hpp"

#include <sqlite3.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace ranvier::storage {

namespace {

constexpr int pages_a_step = 512;          ///< 2 MiB: between two looks at `go_on`
constexpr int operations_a_look = 200'000; ///< of SQLite's machine, some tens of milliseconds
constexpr std::size_t most_problems = 100; ///< SQLite's own limit, too

/// Removes what was half written.
class new_file {
public:
  explicit new_file(std::string path)
      : path_(std::move(path)) {
    const int made = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0) throw error(path_ + " can't be made: " + std::strerror(errno));
    ::close(made);
  }
  ~new_file() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;
  const std::string& path() const { return path_; }

  /// Never over another file.
  void becomes(const std::string& name) {
    sync(path_, O_RDONLY);
    int failed = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
    if (failed == EINVAL || failed == ENOSYS) // a file system without that: the name was free a moment ago
      failed = std::filesystem::exists(name) ? EEXIST : ::rename(path_.c_str(), name.c_str()) == 0 ? 0 : errno;
    if (failed == EEXIST) throw error(name + " exists already; it is not overwritten");
    if (failed) throw error(name + " can't be made: " + std::strerror(failed));
    path_.clear();
    const auto folder = std::filesystem::path(name).parent_path();
    sync(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
  }

private:
  static void sync(const std::string& what, int flags) {
    const int opened = ::open(what.c_str(), flags | O_CLOEXEC);
    const bool synced = opened >= 0 && ::fsync(opened) == 0;
    const int why = errno;
    if (opened >= 0) ::close(opened);
    if (!synced) throw error(what + " can't be written to the disk: " + std::strerror(why));
  }
  std::string path_;
};

} // namespace

backup_report back_up(const std::string& from, const std::string& to, const std::function<bool()>& go_on) {
  if (std::filesystem::exists(to)) throw error(to + " exists already; it is not overwritten");
  database source(from, database::mode::read);
  new_file copy(to + ".partial");
  backup_report out;
  {
    sqlite3* target = nullptr;
    const int opened =
        sqlite3_open_v2(copy.path().c_str(), &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> closing(target, sqlite3_close_v2);
    if (opened != SQLITE_OK) throw error(copy.path() + " can't be opened: " + sqlite3_errstr(opened));
    // One moment of the source: otherwise each commit of the writer would make the copy begin anew.
    snapshot moment(source);
    source.integer("SELECT count(*) FROM sqlite_schema");
    auto* running = sqlite3_backup_init(target, "main", source.handle(), "main");
    if (!running) throw error(copy.path() + " can't be written: " + sqlite3_errmsg(target));
    int code = SQLITE_OK;
    while (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) {
      if (!go_on()) break;
      code = sqlite3_backup_step(running, pages_a_step);
      if (code == SQLITE_BUSY || code == SQLITE_LOCKED) sqlite3_sleep(50);
    }
    const int ended = sqlite3_backup_finish(running);
    if (code != SQLITE_DONE && (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED)) {
      out.broken_off = true;
      return out;
    }
    if (code != SQLITE_DONE || ended != SQLITE_OK)
      throw error(to + " can't be written: " + sqlite3_errmsg(target) + "; nothing is left of it");
  }
  out.bytes = static_cast<std::int64_t>(std::filesystem::file_size(copy.path()));
  copy.becomes(to);
  return out;
}

check_report check(const std::string& path, const std::function<bool()>& go_on) {
  database db(path, database::mode::read);
  check_report out;
  sqlite3_progress_handler(
      db.handle(), operations_a_look,
      [](void* asked) { return (*static_cast<const std::function<bool()>*>(asked))() ? 0 : 1; },
      const_cast<std::function<bool()>*>(&go_on));
  try {
    auto lines = db.ask("PRAGMA integrity_check(100)");
    while (lines.step() && out.problems.size() < most_problems)
      if (auto line = lines.text(0); line != "ok") out.problems.push_back(std::move(line));
  } catch (const error& problem) {
    if (sqlite3_errcode(db.handle()) != SQLITE_INTERRUPT && go_on()) {
      // So damaged that it can't even be looked over.
      out.problems.push_back(problem.what());
      return out;
    }
    out.broken_off = true;
  }
  return out;
}

} // namespace ranvier::storage
