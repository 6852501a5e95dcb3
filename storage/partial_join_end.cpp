// How a partial join ends in the store: completed or abandoned (DESIGN section 8).
#include "storage/partial_joins.hpp"

namespace ranvier::storage {

partial_join_ended partial_join_store::complete(const complete_join& what, inbox_store&, std::int64_t,
                                                std::vector<log_entry>&) {
  partial_join_ended out;
  const auto room = names_.known_room(what.room_id);
  out.current = room && generation_of(*room) == what.generation;
  return out;
}

partial_join_ended partial_join_store::end(const end_partial_join& what, inbox_store&, std::int64_t,
                                           std::vector<log_entry>&) {
  partial_join_ended out;
  const auto room = names_.known_room(what.room_id);
  out.current = room && generation_of(*room) == what.generation;
  return out;
}

} // namespace ranvier::storage
