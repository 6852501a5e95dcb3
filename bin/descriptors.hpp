#pragma once
#include <cstdint>
#include <string>

namespace ranvier {

/// The configured limits that cost descriptors.
struct descriptor_caps {
  std::int64_t federation_connections = 0; ///< one each
  std::int64_t max_in_flight = 0;          ///< two each: connections outlive their request
};

struct descriptor_plan {
  descriptor_caps caps;
  std::int64_t outgoing_connections = 0; ///< what is left for those, idle ones included
  bool lowered = false;
  std::string problem; ///< not even the smallest caps fit: a sentence
};

/// What fits into `have` descriptors (DESIGN section 3). Everything else (database, host and admin listeners, epoll,
/// DNS) has a reserve that is smaller where there is little.
descriptor_plan fit_descriptors(std::int64_t have, descriptor_caps wanted);

} // namespace ranvier
