#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// The one rule for what is sent, taken and kept, over [federation] allow and deny: globs (see glob_matches), of which
/// deny wins; an empty allow list allows everybody.
bool server_is_denied(const std::vector<std::string>& allow, const std::vector<std::string>& deny,
                      std::string_view server);

/// Both lists, for those who look at many servers.
struct allowed_servers {
  std::vector<std::string> allow, deny;

  bool denied(std::string_view server) const { return server_is_denied(allow, deny, server); }
  /// False: everybody is allowed, nobody need be looked at.
  bool any() const { return !allow.empty() || !deny.empty(); }
  bool operator==(const allowed_servers&) const = default;
};

} // namespace ranvier
