#pragma once
#include "messages/device_lists.hpp"
#include "storage/list_announcements.hpp"
#include "storage/name_table.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ranvier::storage {

/// The device lists of remote users that we track: the lists themselves, their stale marks, and what the host is told
/// (DESIGN section 7, L7-L18). A list is held only while its user shares a room with us without a gap (L14). Writes
/// happen inside the ledger's transaction. After each, `entries` has one of kind `stale` for each user whose list must
/// be fetched, with its server.
///
/// `marks` is the number of the latest thing that was learned of a user: a resync that began with an older one doesn't
/// clear a stale mark, and doesn't replace a list that went on without one, so an update that comes while it runs is
/// never lost.
class remote_list_writer {
public:
  remote_list_writer(database& db, name_table& names, inbox_store& inbox, list_announcements& announcements,
                     std::int64_t devices_per_user)
      : db_(db)
      , names_(names)
      , inbox_(inbox)
      , announcements_(announcements)
      , devices_per_user_(devices_per_user) {}

  /// What a transaction of `origin` said of its users, in the order in which it came. A change that can't be stored
  /// costs only itself: its user is marked stale instead (B73). Throws error if not even that works.
  void take(std::string_view origin, const std::vector<inbound_device_change>& changes, std::int64_t now_ms,
            std::vector<log_entry>& entries);
  /// The outcome of a resync.
  device_list_saved save(const save_device_list& what, std::int64_t now_ms, std::vector<log_entry>& entries);
  void mark(const mark_stale& what, std::int64_t now_ms, std::vector<log_entry>& entries);

  /// Forgets the lists of those who share no room any more (L14).
  void roster_changed(const roster_change& what);

  /// What we believed of their rooms was wrong for a time: their lists went through a gap. Announced if one was held.
  void distrust(const std::vector<std::string>& users, std::int64_t now_ms);

  /// Once in a while: what is remembered of those who shared a room lately.
  void tidy(std::int64_t now_ms);

  /// Changes that couldn't be stored, since the start.
  std::uint64_t failures() const { return failures_; }

private:
  struct row {
    std::string user;
    row_id server = 0;
    bool held = false, too_large = false, stale = false, told = false;
    std::int64_t stream_id = 0, marks = 0, next_attempt_ms = 0, mentioned_ms = 0;
    std::string master_key, self_signing_key, mentioned, cause;
  };
  struct batch; ///< what one transaction is about

  void confirmed(const roster_change& what);
  std::optional<row> find(std::string_view user);
  std::int64_t next_mark();
  enum class mark_kind : std::uint8_t { news, doubt }; ///< something came from the user's server; or we only wonder
  std::int64_t mark_one(const std::string& user, std::string_view cause, mark_kind kind, std::int64_t now_ms);
  void unsure(batch& of, const std::string& user, std::string_view cause, mark_kind kind = mark_kind::news);
  void take_one(batch& of, const device_list_edu& edu);
  void take_one(batch& of, const signing_key_edu& edu);
  void take_one(batch& of, const device_mention& mention);
  void take_one(batch& of, const unusable_update& update);
  bool is_held_so(const device_list_edu& edu);
  void apply(batch& of, const row& user, const device_list_edu& edu);
  bool store_device(const std::string& user, const remote_device& device);
  bool drop_device(const std::string& user, const std::string& device);
  bool is_held_so(const save_device_list& what);
  void store_list(const save_device_list& what);
  std::int64_t give_up_list(const std::string& user, std::int64_t next_attempt_ms, std::int64_t now_ms);
  void untrack(const std::string& user, std::int64_t now_ms);
  bool was_untracked_since(const std::string& user, std::int64_t began_ms, std::int64_t now_ms) const;
  void remember(const std::string& user, std::int64_t stream_id);
  bool is_remembered(const std::string& user, std::int64_t stream_id) const;

  device_list_saved save_list(const save_device_list& what, const std::optional<row>& was, std::int64_t now_ms);
  device_list_saved save_too_large(const save_device_list& what, const std::optional<row>& was, std::int64_t now_ms);
  device_list_saved save_failure(const save_device_list& what, const std::optional<row>& was, std::int64_t now_ms);
  void tell_once(const row& was, std::int64_t now_ms);
  log_entry entry_of(const std::string& user, std::int64_t marks, std::int64_t now_ms) const;

  database& db_;
  name_table& names_;
  inbox_store& inbox_;
  list_announcements& announcements_;
  std::int64_t devices_per_user_;
  std::uint64_t failures_ = 0;
  /// Hashes of users whose last shared room ended in this hour, and in the one before, with the wall clock of it: no
  /// fetch takes as long.
  std::unordered_map<std::size_t, std::int64_t> untracked_, untracked_before_;
  std::int64_t hour_began_ms_ = 0;
  /// Stream ids of updates that were applied lately: a peer that begins anew sends its last ones again.
  std::unordered_map<std::string, std::deque<std::int64_t>> applied_;
};

/// Questions about them. Used inside a snapshot.
class remote_list_reader {
public:
  explicit remote_list_reader(database& db)
      : db_(db) {}

  /// Of a user of another server. `devices` empty: all. Devices without keys, or whose keys can't be read, are left
  /// out; names stand in unsigned.device_display_name (U14).
  known_keys_of_user keys(std::string_view user, const std::vector<std::string>& devices);
  /// In order of name; of all servers if none is named.
  stale_users stale(std::string_view server);
  /// Servers with stale users, in order of name, after `after`; for boot.
  std::vector<std::string> servers_with_stale(std::string_view after, std::size_t limit);
  /// F8. Items older than `horizon_ms` count as gone, whether or not they are still there.
  device_changes changes(const find_device_changes& what, std::int64_t now_ms, std::int64_t horizon_ms);

private:
  database& db_;
};

} // namespace ranvier::storage
