#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// The addresses of the `nameserver` lines of a resolv.conf, in their order, zones (%eth0) kept.
std::vector<std::string> nameservers_of(const std::string& resolv_conf);

/// In which order DNS servers are asked: as they are listed, but those that don't answer, or badly, stand behind the
/// others for some minutes (B115). They are still asked when nobody else answers. Pure; moments are ms of one monotonic
/// clock.
class dns_servers {
public:
  static constexpr int strikes_allowed = 2; ///< in a row; with the last one it is set aside
  static constexpr std::int64_t set_aside_ms = 300'000;

  explicit dns_servers(std::vector<std::string> list);

  /// Indices into the list. Never empty unless the list is, or nothing in it can be used.
  std::vector<std::size_t> order(std::int64_t now) const;
  const std::string& name(std::size_t i) const { return all_[i].name; }
  std::size_t size() const { return all_.size(); }
  /// It can't be used at all (c-ares takes no zones); for the words of a failure.
  void unusable(std::size_t i) { all_[i].unusable = true; }
  void answered(std::size_t i);
  /// True if it was set aside by this.
  bool failed(std::size_t i, std::int64_t now);
  /// All of them in words: "192.0.2.1:53, fe80::1%eth0 (can't be used)"; or that there is none.
  std::string words() const;

private:
  struct server {
    std::string name;
    bool unusable = false;
    int strikes = 0;
    std::int64_t aside_until = 0; ///< 0: it isn't set aside
  };
  std::vector<server> all_;
};

} // namespace ranvier
