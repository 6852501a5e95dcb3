#pragma once
#include "actors/ip_ranges.hpp"
#include "messages/protocol/egress.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

struct srv_record {
  std::uint16_t priority = 0, weight = 0, port = 0;
  std::string target;
  bool operator==(const srv_record&) const = default;
};

/// What DNS said. Only `found`, `no_records` and `no_name` are answers; a server failure or a timeout isn't one (B112).
struct lookup {
  enum class outcome { found, no_records, no_name, failed };
  outcome what = outcome::failed;
  std::vector<std::string> addresses; ///< IPv4 first
  std::vector<srv_record> services;
  bool alias = false;      ///< the name is a CNAME
  std::int64_t ttl_s = -1; ///< of the records, or of the news that there are none; -1: not told
  std::string note;        ///< failed: why. found: a remark for people, or empty
};

/// What became of a server's .well-known file.
struct well_known_result {
  enum class outcome {
    delegated, ///< `server` is to be contacted
    none,      ///< there is no valid file (D5): the name itself is meant
    unknown    ///< DNS failed, so nobody can say: discovery fails for now
  };
  outcome what = outcome::none;
  std::string server;
  std::string note;             ///< in words
  bool passing = false;         ///< none: by a fault that may pass (connecting, a timeout, 5xx), not by an answer
  std::int64_t lifetime_ms = 0; ///< delegated: how long it may be kept (D17)
};

/// The walk to a .well-known file: addresses, request, redirects (D3, D4). Pure: it says what it needs next.
class well_known_walk {
public:
  static constexpr int most_redirects = 5;
  static constexpr std::int64_t most_bytes = 50 * 1024;
  static constexpr std::int64_t floor_ms = 60'000, usual_ms = 86'400'000, ceiling_ms = 2 * 86'400'000LL;

  enum class need { nothing, addresses, page };
  struct page {
    route way;
    std::string uri;
  };
  /// The answer to a page; `problem` if there was none.
  struct answer {
    int status = 0;
    std::string body, location, cache_control, expires, date, problem;
  };

  well_known_walk(std::string host, const ip_ranges& deny);
  need wants() const { return wants_; }
  const std::string& host() const { return host_; } ///< whose addresses are needed
  const page& wanted_page() const { return page_; }
  void take(const lookup& addresses);
  void take(const answer& a);
  const well_known_result& result() const { return result_; }
  const std::vector<std::string>& steps() const { return steps_; }

private:
  void look_at(std::string host, int port, std::string uri);
  void redirect(const std::string& location);
  void end(well_known_result::outcome what, std::string note, bool passing = false);

  const ip_ranges& deny_;
  need wants_ = need::nothing;
  std::string host_;
  int port_ = 443;
  page page_;
  std::set<std::string> seen_;
  well_known_result result_;
  std::vector<std::string> steps_;
};

/// How long a delegation may be kept, from its headers: max-age, else Expires, else a day; from a minute to two days.
std::int64_t well_known_lifetime_ms(const std::string& cache_control, const std::string& expires,
                                    const std::string& date);
/// `location` as a reference on a page of `host`:`port` under `uri`; false if it isn't a usable https address.
bool follow_location(const std::string& location, std::string& host, int& port, std::string& uri);

/// RFC 2782: by priority, within one by weighted chance. `chance` gives uniform numbers in [0, 1).
std::vector<srv_record> order_services(std::vector<srv_record> records, const std::function<double()>& chance);

struct discovery_rules {
  std::map<std::string, std::string> addresses; ///< [federation.addresses]
  ip_ranges deny;
  std::function<double()> chance; ///< uniform in [0, 1)
};

/// PROTOCOL section 3, D1 to D16, for one server name. Pure: it says what it needs next, is given it, and ends with a
/// route. Whoever drives it may answer from a cache.
class discovery {
public:
  static constexpr std::size_t most_targets = 8, most_addresses = 8;
  enum class need { nothing, well_known, addresses, services };

  discovery(std::string server_name, const discovery_rules& rules);
  need wants() const { return wants_; }
  const std::string& about() const { return about_; } ///< the name that `wants` is about
  void take(const well_known_result& w);
  void take_addresses(const lookup& l);
  void take_services(const lookup& l);
  const route& result() const { return route_; } ///< when nothing more is needed

private:
  void begin();
  void start_static(const std::string& target, const std::string& host);
  void find_addresses(std::string host, int port);
  void find_services(std::string name);
  void name_found(const std::string& server_name);
  void add(const lookup& l);
  void finish();
  void fail(std::string problem);
  void step(std::string words) { route_.steps.push_back(std::move(words)); }

  const discovery_rules& rules_;
  std::string name_;
  need wants_ = need::nothing;
  std::string about_;
  std::string asked_services_of_; ///< the name without its service label
  bool old_service_label_ = false, at_targets_ = false;
  std::vector<srv_record> targets_; ///< still to be looked up, next one last
  int port_ = 0;
  bool failed_lookup_ = false, missing_name_ = false;
  std::string lookup_problem_;
  std::vector<std::string> found_;
  route route_;
};

} // namespace ranvier
