#pragma once
#include "messages/joins.hpp"
#include "storage/destination_store.hpp"
#include "storage/event_log.hpp"
#include "storage/list_announcements.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ranvier::storage {

/// Where a walk over the closed spans stands.
struct span_place {
  row_id room = 0, server = 0;
  position until = 0, since = 0;
  bool over = false;
};

using server_list = std::shared_ptr<const std::vector<std::string>>;

/// A user of a room and the latest change of it.
struct member_row {
  std::string membership, previous;
  position changed_at = 0;
  bool has_event_id = false; ///< the change was fed with its event's id
  bool matched = false;      ///< the event that belongs to the change was fed
};

/// Who is in which room, and from it the spans: the stretches of the log in which a server is owed a room's events
/// (DESIGN section 4). Every change that changes something takes one position. Writes happen inside the ledger's
/// transaction; after a rollback `forget`.
class roster_store {
public:
  roster_store(database& db, name_table& names, event_log& log, destination_store& destinations)
      : db_(db)
      , names_(names)
      , log_(log)
      , destinations_(destinations) {}

  /// `told` hears of each record that changed a room's joined members, once its rows and spans are written.
  void watch(std::function<void(const roster_change&)> told) { told_ = std::move(told); }

  /// Number of a room that has a roster; nothing for one that has none.
  std::optional<row_id> known(std::string_view room_id);
  void set_version(row_id room, std::string_view version);
  /// Only if none is known: a room's version never changes, and one odd line must not undo the check of all others.
  void learn_version(row_id room, std::string_view version);

  /// One user's change. Does nothing if the membership is what it was, or if the event's id was taken before.
  void change(std::string_view room_id, std::string_view user, std::string_view membership, std::string_view event_id,
              std::int64_t now_ms);
  /// The whole roster: who is missing has left. All differences take effect at one position.
  void replace(std::string_view room_id, const std::map<std::string, std::string>& members, std::int64_t now_ms);

  std::optional<member_row> find_member(row_id room, std::string_view user);
  void mark_matched(row_id room, std::string_view user);

  /// Servers with an open span: those that the room's events go to. Shared and kept until the room's roster changes.
  server_list servers_of(row_id room);
  /// Servers that share a room with a user of ours.
  server_list servers_of_user(std::string_view user);
  bool has_open_span(row_id room, row_id server);
  /// Remote servers with a joined member, whether or not we are in the room.
  std::vector<row_id> joined_servers(row_id room);
  /// Servers that had a span just before `pos` (with `opened_there`: or since `pos`) which has ended since.
  std::vector<row_id> ended_since(row_id room, position pos, bool opened_there);

  /// A join of ours over federation: at one position our user is joined and `members` have these memberships. Of a room
  /// in which one of ours is already, only who isn't known yet is taken over: the host knows better (P14).
  struct arrival {
    row_id room = 0;
    const std::string& user;
    const std::string& event_id;
    const std::map<std::string, std::string>& members;
    bool whole = true;                       ///< nobody else has a membership
    const std::vector<std::string>& servers; ///< in the room too, though no member of theirs may be known
  };
  position arrive(const arrival& who, std::int64_t now_ms);
  bool has_ours(row_id room); ///< a user of ours is joined
  /// A partial join of the room isn't complete: spans open, but none closes but by the last of ours (P9).
  bool is_partial(row_id room);

  /// The full state has come: `members` is everybody's membership before our join, what was seen since stands over it.
  /// Whoever was in the room since then has a span from `since` on, whoever isn't now has none open. The partial join's
  /// row must be gone.
  struct completion {
    row_id room = 0;
    position joined_at = 0, since = 0;
    const std::map<std::string, complete_join::member>& members;
  };
  struct completed {
    /// A server was in the room without being served: it is owed the events in (from, to].
    struct lack {
      row_id server = 0;
      position from = 0, to = 0;
    };
    std::vector<lack> lacks;
    std::vector<std::string> absent;   ///< believed to be joined, wrongly; told as parted
    std::vector<std::string> doubtful; ///< whose membership we may have believed wrongly for a time
  };
  completed complete(const completion& what, std::int64_t now_ms);
  /// None of ours is in the room any more; spans end.
  void abandon(row_id room, std::int64_t now_ms);

  /// A server that the configuration denies is owed no extras: they go, counted.
  void let_go_if_denied(row_id server);

  /// Servers whose spans end if this user, who is joined, isn't any more.
  std::vector<row_id> ended_by_parting(row_id room, std::string_view user);

  /// Drops closed spans that end at or before `horizon` and in which their server is owed nothing any more. Looks at
  /// `at_most` from `place` on and moves it.
  std::size_t drop_passed_spans(position horizon, span_place& place, std::size_t at_most);

  /// The host forgot the room: its roster goes and its spans end, so that nothing new is taken for it; what is owed
  /// stays owed, or with `now` is let go, counted with each server.
  void forget_room(std::string_view room_id, bool now, std::int64_t now_ms);
  /// Nothing of the forgotten room is owed any more: its spans go.
  void end_forgotten(row_id room);
  /// Names of rooms that were forgotten before `before_ms` and about which nothing is known; how many went.
  std::int64_t drop_names_of_forgotten(std::int64_t before_ms, std::size_t at_most);
  void forget();

private:
  void begin_roster(row_id room);
  void let_all_go(row_id room);
  row_id row_of_server(std::string_view user);
  void write_member(row_id room, row_id server, std::string_view user, std::string_view membership, position at,
                    const std::optional<member_row>& was, bool has_event_id);
  bool has_joined(row_id room, row_id server);
  void open_span(row_id room, row_id server, position at, std::int64_t now_ms);
  void close_span(row_id room, row_id server, position at);
  void close_all(row_id room, position at);
  void settle(row_id room, position at, std::int64_t now_ms);
  void change_spans(row_id room, row_id server, bool joins, position at, std::int64_t now_ms);
  std::vector<std::string> joined_users(row_id room);
  std::map<std::string, std::string> believed(const arrival& who, bool ours);
  void overlay(const completion& what, completed& out, std::set<row_id>& moved);
  void serve_from(const completion& what, row_id server, bool stays, position at, std::int64_t now_ms, completed& out);
  void tell(row_id room, std::vector<std::string> joined, std::vector<std::string> parted, std::int64_t now_ms);

  database& db_;
  name_table& names_;
  event_log& log_;
  destination_store& destinations_;
  std::function<void(const roster_change&)> told_;
  std::unordered_map<row_id, server_list> servers_;
};

} // namespace ranvier::storage
