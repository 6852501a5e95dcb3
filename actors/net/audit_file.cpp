#include "actors/net/audit_file.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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

} // namespace

std::string audit_line::text() const {
  nlohmann::ordered_json all{{"at_ms", at_ms}};
  for (std::size_t i = 0; i < std::size(members); ++i)
    all[members[i]] = this->*places[i];
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string audit_file::record(const audit_line& line) {
  std::lock_guard lock(mutex_);
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

std::vector<audit_line> audit_file::newest(std::size_t limit, std::size_t skipped, std::size_t& total) const {
  std::vector<audit_line> all, out;
  {
    std::lock_guard lock(mutex_);
    std::ifstream in(path_);
    for (std::string text; std::getline(in, text);)
      if (audit_line read; read_line(text, read)) all.push_back(std::move(read));
  }
  total = all.size();
  for (auto i = skipped; i < all.size() && out.size() < limit; ++i)
    out.push_back(std::move(all[all.size() - 1 - i]));
  return out;
}

} // namespace ranvier
