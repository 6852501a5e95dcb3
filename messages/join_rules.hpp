#pragma once
#include "messages/event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

// A join over federation, decided (PROTOCOL section 14). Pure.

/// What the host wants.
struct join_wish {
  std::string room_id, user_id;
  std::string content;     ///< a JSON object: what the host adds to the member event's content; empty: nothing
  std::string server_name; ///< ours
};

/// A make_join answer, checked and made into our signed join event.
struct join_offer {
  std::string problem; ///< not empty: it can't be used, and why (J2); nothing else is set
  std::string room_version;
  room_version_rules rules;
  std::string event_id, event; ///< canonical JSON
  std::string authorised_by;   ///< restricted join: the server that must sign it too (J7); else empty
};

/// J2, J3: room, sender, state key, type and membership must be ours, the version known. Of the template only what it
/// alone can know is taken: references, depth, and who authorises a restricted join. `now_ms`: origin_server_ts.
join_offer read_join_template(std::string_view answer, const join_wish& wish, const signing_key& key,
                              std::int64_t now_ms);

/// `/_matrix/federation/v1/make_join/...` with all versions that we know (J1).
std::string make_join_uri(const join_wish& wish);
/// `v2` false: the old path, whose answer is wrapped (J4) and that knows no omit_members.
std::string send_join_uri(const join_wish& wish, const std::string& event_id, bool v2, bool omit_members);

/// Ids that an event's prev_events or auth_events name; of room versions 1 and 2 they stand in pairs.
std::vector<std::string> references_of(std::string_view event, std::string_view member);

} // namespace ranvier
