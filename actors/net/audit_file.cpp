#include "actors/net/audit_file.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>

namespace ranvier {
namespace {

constexpr const char* members[] = {"who", "verb", "subject", "reason", "details", "outcome"};
constexpr std::string audit_line::*places[] = {&audit_line::who,    &audit_line::verb,    &audit_line::subject,
                                               &audit_line::reason, &audit_line::details, &audit_line::outcome};

bool read_line(const std::string& text, audit_line& into) {
  const auto all = nlohmann::json::parse(text, nullptr, false);
  if (!all.is_object()) return false;
  if (const auto at = all.find("at_ms"); at != all.end() && at->is_number_integer())
    into.at_ms = at->get<std::int64_t>();
  for (std::size_t i = 0; i < std::size(members); ++i)
    if (const auto found = all.find(members[i]); found != all.end() && found->is_string())
      into.*places[i] = found->get<std::string>();
  return true;
}

std::int64_t size_of(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? std::int64_t(facts.st_size) : 0;
}

/// The lines of a file, last one first, until `take` says no.
void read_backwards(const std::string& path, const std::function<bool(const std::string&)>& take) {
  constexpr std::int64_t piece = 64 * 1024;
  std::ifstream in(path, std::ios::binary);
  auto begin = size_of(path); // of what was read
  std::string rest;           // from there to the last line that was taken
  while (in && begin > 0) {
    const auto from = std::max<std::int64_t>(0, begin - piece);
    std::string text(static_cast<std::size_t>(begin - from), '\0');
    if (!in.seekg(from).read(text.data(), std::streamsize(text.size()))) return;
    begin = from;
    rest.insert(0, text);
    for (auto end = rest.rfind('\n'); end != std::string::npos; end = rest.rfind('\n')) {
      const auto line = rest.substr(end + 1);
      rest.erase(end);
      if (!line.empty() && !take(line)) return;
    }
  }
  if (!rest.empty()) take(rest);
}

} // namespace

std::string audit_line::text() const {
  nlohmann::ordered_json all{{"at_ms", at_ms}};
  for (std::size_t i = 0; i < std::size(members); ++i)
    all[members[i]] = this->*places[i];
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string audit_file::record(const audit_line& line) {
  std::lock_guard lock(mutex_);
  if (size_of(path_) >= limits_.file_bytes) rotate();
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return "the audit log " + path_ + " can't be opened: " + std::strerror(errno);
  // A crash may have left half a line: the next one begins on its own.
  char last = '\n';
  const auto size = ::lseek(file, 0, SEEK_END);
  if (size > 0 && ::pread(file, &last, 1, size - 1) != 1) last = '\n';
  const auto text = (last == '\n' ? "" : "\n") + line.text() + '\n';
  const bool good = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  const int why = errno;
  ::close(file);
  return good ? std::string() : "the audit log " + path_ + " can't be written: " + std::strerror(why);
}

std::string audit_file::name_of(int number) const { return number == 0 ? path_ : path_ + '.' + std::to_string(number); }

/// Each file takes the next number. What can't be renamed stays, and grows: a line is never lost to the order of files.
void audit_file::rotate() {
  for (int number = limits_.files - 1; number > 0; --number)
    ::rename(name_of(number - 1).c_str(), name_of(number).c_str());
  counted_.clear();
}

std::size_t audit_file::count_all() const {
  std::size_t total = 0;
  for (int number = 0; number < limits_.files; ++number) {
    auto& known = counted_[number];
    const auto size = size_of(name_of(number));
    if (size < known.bytes) known = {};
    if (size > known.bytes) {
      std::ifstream in(name_of(number));
      in.seekg(known.bytes);
      audit_line ignored;
      for (std::string text; std::getline(in, text);)
        known.lines += read_line(text, ignored);
      known.bytes = size;
    }
    total += known.lines;
  }
  return total;
}

std::vector<audit_line> audit_file::newest(std::size_t limit, std::size_t skipped, std::size_t& total) const {
  std::lock_guard lock(mutex_);
  total = count_all();
  std::vector<audit_line> out;
  for (int number = 0; number < limits_.files && out.size() < limit; ++number)
    read_backwards(name_of(number), [&](const std::string& text) {
      audit_line read;
      if (!read_line(text, read)) return true;
      if (skipped > 0) --skipped;
      else out.push_back(std::move(read));
      return out.size() < limit;
    });
  return out;
}

} // namespace ranvier
