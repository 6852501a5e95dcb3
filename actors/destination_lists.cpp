// Device lists of this server's users: which must be fetched, when, and who waits for them (DESIGN section 7).
#include "actors/destination_core.hpp"

namespace ranvier {

caf::result<refreshed> destination_core::refresh(const refresh_lists&) {
  return refreshed{{}, "device lists aren't fetched yet"};
}

} // namespace ranvier
