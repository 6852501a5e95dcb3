#pragma once
#include "storage/compaction.hpp"
#include "storage/destination_store.hpp"
#include "storage/device_store.hpp"
#include "storage/ephemeral_inbox.hpp"
#include "storage/event_log.hpp"
#include "storage/feed_writer.hpp"
#include "storage/inbox_store.hpp"
#include "storage/key_store.hpp"
#include "storage/name_table.hpp"
#include "storage/partial_joins.hpp"
#include "storage/remote_lists.hpp"
#include "storage/roster_store.hpp"

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace ranvier::storage {

struct writer_settings {
  std::string path;
  std::int64_t stream_bytes = 1'073'741'824;
  std::vector<std::string> consumers{"host"};
  std::int64_t devices_per_user = 10'000;
  bool display_names = true; ///< other servers are told the names of devices
  storage::compaction::settings compact{};
  std::int64_t to_device_max_bytes = std::numeric_limits<std::int64_t>::max(); ///< waiting for one server
  allowed_servers servers{};                                                   ///< [federation] allow and deny
};

/// The only writer of a database: all stores over one connection, and group commit. Many askers' jobs share one commit;
/// each stands in a savepoint of its own, so that one bad statement fails one asker. The database must have been
/// through `prepare`.
class writer {
public:
  explicit writer(const writer_settings& settings);

  /// Writes through the stores; adds what others must hear of to the entries. Throws error to be undone, alone.
  using job = std::function<void(writer& stores, std::vector<log_entry>& entries)>;

  struct group_result {
    bool committed = false;
    std::vector<std::string> problems; ///< one for each job, empty: done
    std::vector<log_entry> entries;    ///< of all jobs that were done, in order
    position head = 0;
  };
  /// Never throws: if nothing could be committed each job has the problem, and everything is as it was before.
  group_result commit(const std::vector<job>& jobs);

  /// Clean-up in small steps, once in a while: ids and answers whose time is over, messages that waited too long. What
  /// is more than a step's worth is compaction's. A job for `commit`.
  struct ages {
    std::int64_t to_device_ms = 0;
    std::int64_t device_changes_ms = std::numeric_limits<std::int64_t>::max(); ///< what /device_lists/changes knows
  };
  void tidy(std::int64_t now_ms, const ages& limits);
  /// A step of compaction, while `compact.due()`. A job for `commit`; it adds no entries.
  void compact_step(std::int64_t now_ms, const ages& limits);

  database db;
  name_table names;
  event_log log;
  destination_store destinations;
  roster_store roster;
  feed_writer feed;
  inbox_store inbox;
  key_store keys;
  compaction compact;
  device_store devices;
  list_announcements announcements;
  remote_list_writer lists;
  partial_join_store joins;

private:
  std::string attempt(const job& what, std::vector<log_entry>& entries);
  void reload();

  position horizon_ = 0;   ///< the head at the last full hour
  position old_spans_ = 0; ///< the head at the one before it
  std::int64_t horizon_taken_ms_ = 0;
};

} // namespace ranvier::storage
