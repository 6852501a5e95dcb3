#include "actors/tokens.hpp"

#include "messages/signing.hpp"

#include <sodium.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace ranvier {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
    line.pop_back();
  return line;
}

} // namespace

std::string load_or_make_token(const std::string& path) {
  if (auto known = first_line(path); !known.empty()) return known;
  std::string bytes(32, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  const auto token = base64_url(bytes);
  // A file of that name that is there but empty was broken off while it was made; it is written anew.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto text = token + "\n";
  bool ok = file >= 0 && ::fchmod(file, 0600) == 0;
  ok = ok && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (!ok) throw std::runtime_error("can't make the token file " + path + ": " + std::strerror(problem));
  return token;
}

bool same_secret(std::string_view given, std::string_view expected) {
  // Hashing first makes both equally long.
  const auto a = sha256(given), b = sha256(expected);
  return !expected.empty() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size()) return {};
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != scheme[i]) return {};
  }
  authorization.remove_prefix(scheme.size());
  while (!authorization.empty() && authorization.front() == ' ')
    authorization.remove_prefix(1);
  return authorization;
}

} // namespace ranvier
