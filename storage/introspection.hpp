#pragma once
#include "messages/introspection.hpp"
#include "storage/database.hpp"

#include <functional>

namespace ranvier::storage {

// Questions of operators (messages/introspection.hpp), each inside a snapshot. They may look at much and are asked on a
// connection of their own, so that deliveries never wait for them. Throw error.

/// `newest_kept`: K of the rules of catch-up.
queue_page queue_of(database& db, const read_queue& what, std::int64_t newest_kept);
rooms_page shared_rooms(database& db, const read_rooms& what, std::int64_t newest_kept);
/// `go_on` is asked now and then; once it says no the answer is what was found so far.
shape_rows shape_of(database& db, const read_shape& what, std::int64_t newest_kept, const std::function<bool()>& go_on);
/// The same of counting.
waiting_sums waiting_of(database& db, const read_waiting& what, std::int64_t newest_kept,
                        const std::function<bool()>& go_on);
event_trace trace(database& db, const trace_event& what, std::int64_t newest_kept);
room_trace trace(database& db, const trace_room& what, std::int64_t newest_kept);
user_trace trace(database& db, const trace_user& what);

} // namespace ranvier::storage
