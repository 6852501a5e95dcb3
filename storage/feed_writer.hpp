#pragma once
#include "messages/records.hpp"
#include "storage/destination_store.hpp"
#include "storage/device_store.hpp"
#include "storage/event_log.hpp"
#include "storage/partial_joins.hpp"
#include "storage/list_announcements.hpp"
#include "storage/room_store.hpp"
#include "storage/roster_store.hpp"

#include <set>
#include <string>
#include <vector>

namespace ranvier::storage {

/// Why a line wasn't taken.
struct refusal {
  std::uint64_t line = 0;
  std::string errcode, error;
};

struct feed_result {
  std::uint64_t accepted = 0, skipped = 0;
  std::vector<refusal> rejected;
};

/// Writes the host's records into the log and the roster, and says what they mean: one entry for each thing that some
/// server is owed, in order. Works inside the ledger's transaction; after a rollback the stores are rewound, not this.
class feed_writer {
public:
  feed_writer(database& db, name_table& names, event_log& log, roster_store& roster, destination_store& destinations,
              device_store& devices, list_announcements& announcements)
      : db_(db)
      , names_(names)
      , log_(log)
      , roster_(roster)
      , destinations_(destinations)
      , devices_(devices)
      , announcements_(announcements)
      , rooms_(db, names)
      , joins_(db, names, log, roster, devices, announcements) {}

  /// Lines in order; entries are added to `entries`. Throws error if the store fails: then nothing of it may be kept.
  feed_result apply(const std::vector<feed_line>& lines, std::int64_t now_ms, std::vector<log_entry>& entries);

private:
  std::optional<record_problem> take(const record& what);
  std::optional<record_problem> take(const pdu_record& what);
  std::optional<record_problem> take(const edu_record& what);
  std::optional<record_problem> take(const to_device_record& what);
  std::optional<record_problem> take(const roster_record& what);
  std::optional<record_problem> take(const membership_record& what);
  std::optional<record_problem> take(const device_record& what);
  std::optional<record_problem> take(const cross_signing_record& what);
  std::optional<record_problem> take(const one_time_keys_record& what);
  std::optional<record_problem> take(const partial_join_record& what);
  std::optional<record_problem> take(const server_acl_record& what);
  std::optional<record_problem> take(const room_forgotten_record& what);

  bool skip(const feed_line& line);
  void tell_of_join(const membership_record& what, row_id room);
  void tell_of_change(const list_change& what, entry_kind kind, const std::string& user, const std::string& device,
                      bool announce);
  std::vector<row_id> beyond_the_room(row_id room, const pdu_record& what);
  void name_those_who_part(row_id room, const pdu_record& what, position pos);
  server_list owed_to(const pdu_record& what, row_id room, position pos, const std::vector<row_id>& beyond);

  database& db_;
  name_table& names_;
  event_log& log_;
  roster_store& roster_;
  destination_store& destinations_;
  device_store& devices_;
  list_announcements& announcements_;
  room_store rooms_;
  partial_join_store joins_;
  std::int64_t now_ms_ = 0;
  std::vector<log_entry>* entries_ = nullptr;
  std::set<std::string> changed_; ///< local users whose lists changed in this batch
};

} // namespace ranvier::storage
