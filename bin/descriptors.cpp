#include "bin/descriptors.hpp"

#include <algorithm>

namespace ranvier {
namespace {

constexpr std::int64_t reserve_wanted = 256; // host and admin connections, database, epoll, DNS
constexpr std::int64_t reserve_needed = 96;
constexpr std::int64_t least_in = 16, least_out = 8;

} // namespace

descriptor_plan fit_descriptors(std::int64_t have, descriptor_caps wanted) {
  descriptor_plan plan{wanted, 0, false, {}};
  if (wanted.federation_connections + 2 * wanted.max_in_flight + reserve_wanted <= have) {
    plan.outgoing_connections = have - reserve_wanted - wanted.federation_connections;
    return plan;
  }
  const auto least = reserve_needed + least_in + 2 * least_out;
  if (have < least) {
    plan.problem = "only " + std::to_string(have) + " files may be open at a time (ulimit -n, LimitNOFILE); at least " +
                   std::to_string(least) + " are needed";
    return plan;
  }
  // Half of what is left for each direction; what one of them doesn't need goes to the other.
  const auto left = have - std::clamp(have / 4, reserve_needed, reserve_wanted);
  auto in = std::min(wanted.federation_connections, std::max(left / 2, left - 2 * wanted.max_in_flight));
  in = std::max(in, std::min(least_in, wanted.federation_connections));
  auto out = std::min(wanted.max_in_flight, std::max(least_out, (left - in) / 2));
  plan.lowered = in != wanted.federation_connections || out != wanted.max_in_flight;
  plan.caps = {in, out};
  plan.outgoing_connections = left - in;
  return plan;
}

} // namespace ranvier
