#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// A list of networks like [federation] ip_deny. An IPv6 address that stands for an IPv4 one (::ffff:a.b.c.d, or
/// 64:ff9b::/96 behind a translator) is judged as that one too.
class ip_ranges {
public:
  ip_ranges() = default;
  /// Entries that aren't networks are left out: `problems` says which, each in a sentence.
  explicit ip_ranges(const std::vector<std::string>& networks, std::vector<std::string>* problems = nullptr);
  /// Text that isn't an address is never contained.
  bool contains(const std::string& address) const;

private:
  struct network {
    bool v6 = false;
    std::array<std::uint8_t, 16> bytes{};
    int bits = 0;
  };
  bool matches(bool v6, const std::uint8_t* bytes) const;
  std::vector<network> networks_;
};

/// "1.2.3.4" and 8448 to "1.2.3.4:8448", "::1" and 8448 to "[::1]:8448".
std::string address_with_port(const std::string& address, int port);
/// The address of "1.2.3.4:8448" or "[::1]:8448", without port and brackets.
std::string address_of(const std::string& address_and_port);
/// Its port, 0 if there is none.
int port_of(const std::string& address_and_port);
bool is_ip_address(const std::string& text);

} // namespace ranvier
