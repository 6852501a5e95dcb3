#include "messages/allowed_servers.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view server) {
  return std::any_of(globs.begin(), globs.end(), [&](const auto& glob) { return glob_matches(glob, server); });
}

} // namespace

bool server_is_denied(const std::vector<std::string>& allow, const std::vector<std::string>& deny,
                      std::string_view server) {
  return any_matches(deny, server) || (!allow.empty() && !any_matches(allow, server));
}

} // namespace ranvier
