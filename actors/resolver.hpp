#pragma once
#include "actors/discovery.hpp"
#include "actors/net/dns.hpp"
#include "actors/net/http_client.hpp"
#include "messages/config.hpp"
#include "messages/protocol/egress.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

struct resolver_settings {
  std::map<std::string, std::string> addresses; ///< [federation.addresses]
  std::vector<std::string> ip_deny;
  std::size_t cached_names = 20'000; ///< .well-known files; of DNS three times as many facts
  /// Discoveries that began less than `young_ms` ago, at most; further ones wait. Older ones wait for somebody who is
  /// silent and don't count, so that thousands of dead names hold up nobody for long.
  std::size_t young_discoveries = 250;
  std::int64_t young_ms = 125;
  std::size_t open_discoveries = 50'000;       ///< older ones included
  std::int64_t keep_after_ms = 10'000;         ///< what was learnt is kept for the next start so much later
  std::int64_t well_known_timeout_ms = 30'000; ///< all redirects together, waiting for a slot aside
  std::int64_t no_services_ms = 300'000;       ///< for how long "no such SRV record" is believed if DNS doesn't say it
  std::int64_t no_address_ms = 60'000;         ///< the same of "no such name" and "no address"
  std::int64_t least_dns_ms = 30'000, most_dns_ms = 86'400'000; ///< bounds of a DNS answer's time to live
  std::int64_t most_nothing_ms = 3'600'000;                     ///< the upper one if it says that there is nothing
  std::int64_t old_answers_ms = 86'400'000; ///< past its end an answer may still serve while DNS fails
  std::int64_t first_refusal_ms = 60'000, most_refusal_ms = 3'600'000; ///< no .well-known: x2 each time (D18)
  std::int64_t refresh_ms = 300'000; ///< a route that failed is looked up anew at most once in this time

  static resolver_settings from(const config& c);
};

/// The world outside, as the resolver sees it. Each function answers its callback exactly once, from any thread.
struct resolver_tools {
  std::function<void(std::string name, std::function<void(lookup)>)> addresses, services;
  std::function<void(http_job)> fetch;
  std::function<double()> chance; ///< uniform in [0, 1), called by the actor only
  /// For what is kept over a restart; all three, or none. `load` is called once, at the start.
  std::function<std::int64_t()> wall_ms;
  std::function<std::string()> load;
  std::function<void(std::string)> save;
};
/// The real ones. `seed`: of the choice between SRV targets of one priority. `kept_in`: the file for the next start;
/// empty: nothing is kept.
resolver_tools make_resolver_tools(std::shared_ptr<dns_client> dns, std::shared_ptr<http_client> http,
                                   std::uint64_t seed, const std::string& kept_in);

/// Made at start; answers each `resolve` from static routes, a cache of facts (well-known files, DNS answers; the route
/// is put together anew each time) or the network; one discovery at a time for a name, its outcome shared by all who
/// asked. .well-known files are known over a restart, their expiry too (B110). Its failure loses the cache only.
resolver_actor spawn_resolver(caf::actor_system& system, resolver_settings settings, resolver_tools tools);

} // namespace ranvier
