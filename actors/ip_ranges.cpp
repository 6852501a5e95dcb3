#include "actors/ip_ranges.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace ranvier {
namespace {

bool parse_address(const std::string& text, bool& v6, std::array<std::uint8_t, 16>& bytes) {
  v6 = text.find(':') != std::string::npos;
  return inet_pton(v6 ? AF_INET6 : AF_INET, text.c_str(), bytes.data()) == 1;
}

bool same_prefix(const std::uint8_t* a, const std::uint8_t* b, int bits) {
  int whole = bits / 8, rest = bits % 8;
  if (!std::equal(a, a + whole, b)) return false;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

} // namespace

ip_ranges::ip_ranges(const std::vector<std::string>& networks, std::vector<std::string>* problems) {
  for (const auto& text : networks) {
    network n;
    auto slash = text.find('/');
    bool good = parse_address(text.substr(0, slash), n.v6, n.bytes);
    n.bits = n.v6 ? 128 : 32;
    if (good && slash != std::string::npos) {
      auto most = n.bits;
      auto end = text.data() + text.size();
      auto [p, ec] = std::from_chars(text.data() + slash + 1, end, n.bits);
      good = ec == std::errc() && p == end && n.bits >= 0 && n.bits <= most;
    }
    if (good) networks_.push_back(n);
    else if (problems) problems->push_back("\"" + text + "\" isn't a network like 10.0.0.0/8 or fc00::/7");
  }
}

bool ip_ranges::matches(bool v6, const std::uint8_t* bytes) const {
  return std::any_of(networks_.begin(), networks_.end(),
                     [&](const network& n) { return n.v6 == v6 && same_prefix(n.bytes.data(), bytes, n.bits); });
}

bool ip_ranges::contains(const std::string& address) const {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};
  if (!parse_address(address, v6, bytes)) return false;
  if (matches(v6, bytes.data())) return true;
  if (!v6) return false;
  static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  static constexpr std::uint8_t translated[12] = {0, 0x64, 0xff, 0x9b};
  return (same_prefix(bytes.data(), mapped, 96) || same_prefix(bytes.data(), translated, 96)) &&
         matches(false, bytes.data() + 12);
}

std::string address_with_port(const std::string& address, int port) {
  bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::string address_of(const std::string& address_and_port) {
  if (address_and_port.starts_with('[')) return address_and_port.substr(1, address_and_port.find(']') - 1);
  return address_and_port.substr(0, address_and_port.rfind(':'));
}

int port_of(const std::string& address_and_port) {
  auto colon = address_and_port.rfind(':');
  auto bracket = address_and_port.rfind(']');
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket)) return 0;
  int port = 0;
  auto end = address_and_port.data() + address_and_port.size();
  auto [p, ec] = std::from_chars(address_and_port.data() + colon + 1, end, port);
  return ec == std::errc() && p == end && port > 0 && port <= 65535 ? port : 0;
}

bool is_ip_address(const std::string& text) {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};
  return parse_address(text, v6, bytes);
}

} // namespace ranvier
