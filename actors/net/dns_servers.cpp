#include "actors/net/dns_servers.hpp"

#include <algorithm>
#include <sstream>

namespace ranvier {

std::vector<std::string> nameservers_of(const std::string& resolv_conf) {
  std::vector<std::string> out;
  std::istringstream lines(resolv_conf);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find_first_of("#;")));
    std::string word, address;
    if (words >> word >> address && word == "nameserver") out.push_back(address);
  }
  return out;
}

dns_servers::dns_servers(std::vector<std::string> list) {
  for (auto& name : list)
    all_.push_back({std::move(name)});
}

std::vector<std::size_t> dns_servers::order(std::int64_t now) const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (!all_[i].unusable) out.push_back(i);
  std::stable_partition(out.begin(), out.end(), [&](std::size_t i) { return all_[i].aside_until <= now; });
  return out;
}

void dns_servers::answered(std::size_t i) { all_[i].strikes = 0, all_[i].aside_until = 0; }

bool dns_servers::failed(std::size_t i, std::int64_t now) {
  auto& s = all_[i];
  if (++s.strikes < strikes_allowed) return false;
  bool already = s.aside_until > now;
  s.aside_until = now + set_aside_ms;
  return !already;
}

std::string dns_servers::words() const {
  if (all_.empty()) return "no server: none is configured";
  std::string out;
  for (const auto& s : all_)
    out += (out.empty() ? "" : ", ") + s.name + (s.unusable ? " (can't be used)" : "");
  return out;
}

} // namespace ranvier
