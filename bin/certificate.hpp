#pragma once
#include <string>
#include <vector>

namespace ranvier {

/// A certificate of one's own making, for loopback only: it is its own authority, so its PEM serves as a ca_file.
struct own_certificate {
  std::string certificate_pem, private_key_pem;
};

/// For these names, each a host name or an IP address; valid for ten years. Throws std::runtime_error.
own_certificate make_certificate(const std::vector<std::string>& names);

} // namespace ranvier
