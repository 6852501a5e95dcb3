#include "storage/feed_writer.hpp"

#include "messages/canonical_json.hpp"
#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "messages/signing.hpp"
#include "messages/to_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace ranvier::storage {

namespace {

record_problem unknown_room(const std::string& room_id) {
  return {"M_RANVIER_UNKNOWN_ROOM", "The room " + room_id +
                                        " has no roster; feed its \"roster\" first, or give "
                                        "\"destinations\""};
}

/// A membership that makes the user's server hear of the next member event (DESIGN section 4).
bool concerned(const std::string& membership) {
  return membership == "join" || membership == "invite" || membership == "knock";
}

} // namespace

feed_result feed_writer::apply(const std::vector<feed_line>& lines, std::int64_t now_ms,
                               std::vector<log_entry>& entries) {
  feed_result result;
  now_ms_ = now_ms;
  entries_ = &entries;
  changed_.clear();
  for (const auto& line : lines) {
    if (skip(line)) {
      ++result.skipped;
      continue;
    }
    std::optional<record_problem> problem;
    if (const auto* bad = std::get_if<record_problem>(&line.what)) problem = *bad;
    else problem = take(std::get<record>(line.what));
    if (problem) result.rejected.push_back({line.number, problem->errcode, problem->error});
    else ++result.accepted;
  }
  announcements_.changed({changed_.begin(), changed_.end()}, now_ms_);
  return result;
}

/// True if the line's source has gone past its seq; else the seq counts as seen from now on, whatever the line holds.
bool feed_writer::skip(const feed_line& line) {
  if (line.source.empty()) return false;
  db_.run("INSERT INTO feed_source(source, seq) VALUES(?, ?) ON CONFLICT(source) DO UPDATE SET seq = excluded.seq "
          "WHERE seq < excluded.seq",
          line.source, line.seq);
  return db_.changes() == 0;
}

std::optional<record_problem> feed_writer::take(const record& what) {
  return std::visit([this](const auto& one) { return take(one); }, what);
}

/// Servers that are owed a member event beside those that the room has now: those that it had just before the user's
/// change if that stands in the log already, and the user's own if it was concerned. Judged when the event is appended,
/// so it makes no difference whether the event or its `membership` line comes first.
std::vector<row_id> feed_writer::beyond_the_room(row_id room, const pdu_record& what) {
  std::set<row_id> found;
  auto member = roster_.find_member(room, *what.state_key);
  std::string before = member ? member->membership : std::string();
  const auto forgotten = db_.integer("SELECT forgotten FROM room WHERE id = ?", room).value_or(0);
  // With the first of ours spans open at the very position of the line: those servers were in the room before.
  bool we_come = what.membership == "join" && names_.server(server_of(*what.state_key)) == our_server;
  if (auto line = log_.seen("m|" + what.event_id); line && (forgotten == 0 || std::abs(line->pos) > forgotten)) {
    before = line->previous;
    for (auto server : roster_.ended_since(room, line->pos, we_come))
      found.insert(server);
  } else if (member && !member->has_event_id && !member->matched && member->membership == what.membership &&
             what.membership != "join") {
    // Without an id only a change of the same kind that no event has claimed yet can be meant. A join ends no span, and
    // a profile change looks just like one, so a join claims nothing.
    before = member->previous;
    for (auto server : roster_.ended_since(room, member->changed_at, we_come))
      found.insert(server);
    roster_.mark_matched(room, *what.state_key);
  }
  if (concerned(before)) found.insert(names_.server(server_of(*what.state_key)));
  if (what.membership == "join" && roster_.servers_of(room)->empty())
    // The first of ours comes: with the `membership` line first these servers would have spans already.
    for (auto server : roster_.joined_servers(room))
      found.insert(server);
  found.erase(our_server);
  std::erase_if(found, [&](row_id server) { return roster_.has_open_span(room, server); });
  return {found.begin(), found.end()};
}

/// A leave or ban that is fed before its `membership` line stands inside the spans that the line will end. Rule K never
/// lets go of what ends a span, so a server whose gate is closed now is named.
void feed_writer::name_those_who_part(row_id room, const pdu_record& what, position pos) {
  if (what.membership == "join") return;
  for (auto server : roster_.ended_by_parting(room, *what.state_key)) {
    const auto& names = what.exclude;
    if (!destinations_.is_closed(server) || destinations_.is_denied(server)) continue;
    if (std::find(names.begin(), names.end(), names_.server_name(server)) == names.end())
      log_.add_target(server, pos, room);
  }
}

/// Names of all servers that the event is owed to, with `exclude` applied; the room's shared list where that will do.
server_list feed_writer::owed_to(const pdu_record& what, row_id room, position pos, const std::vector<row_id>& beyond) {
  for (auto server : beyond) {
    destinations_.ensure(server, pos - 1, now_ms_);
    if (destinations_.is_denied(server)) destinations_.count_let_go(server, 1);
    else log_.add_target(server, pos, room);
  }
  auto list = what.destinations ? std::make_shared<const std::vector<std::string>>() : roster_.servers_of(room);
  if (beyond.empty() && what.exclude.empty()) return list;
  std::set<std::string> all(list->begin(), list->end());
  for (auto server : beyond)
    all.insert(names_.server_name(server));
  for (const auto& name : what.exclude)
    all.erase(name);
  return std::make_shared<const std::vector<std::string>>(all.begin(), all.end());
}

std::optional<record_problem> feed_writer::take(const pdu_record& what) {
  if (log_.has_event(what.event_id)) return {};
  auto known = roster_.known(what.room_id);
  if (!known && !what.destinations) return unknown_room(what.room_id);
  if (known && what.loose_numbers) {
    // The line named no version, but the room has one (C4).
    const auto version = db_.text("SELECT version FROM room WHERE id = ?", *known).value_or("");
    if (const auto rules = rules_of(version); rules && rules->number_rule == numbers::strict)
      return record_problem{"M_BAD_JSON", "\"event\" holds a number that room version " + version +
                                              " forbids: only integers within +-(2^53 - 1) are allowed"};
  }
  auto room = known ? *known : names_.room(what.room_id);
  roster_.learn_version(room, what.room_version);
  std::vector<row_id> beyond;
  if (what.destinations) {
    for (const auto& name : *what.destinations)
      if (auto server = names_.server(name); server != our_server) beyond.push_back(server);
  } else if (what.type == "m.room.member" && what.state_key) {
    beyond = beyond_the_room(room, what);
  }
  std::erase_if(beyond, [&](row_id server) {
    return std::find(what.exclude.begin(), what.exclude.end(), names_.server_name(server)) != what.exclude.end();
  });
  auto pos = log_.append({room, what.event_id, what.event, what.destinations.has_value(), what.exclude, now_ms_});
  if (!what.destinations && what.type == "m.room.member" && what.state_key) name_those_who_part(room, what, pos);
  auto servers = owed_to(what, room, pos, beyond);
  entries_->push_back({entry_kind::pdu, pos, what.room_id, what.event_id, "", what.event, now_ms_, std::move(servers)});
  return {};
}

std::optional<record_problem> feed_writer::take(const edu_record& what) {
  server_list servers;
  if (what.destinations) {
    std::set<std::string> all(what.destinations->begin(), what.destinations->end());
    all.erase(names_.server_name(our_server));
    servers = std::make_shared<const std::vector<std::string>>(all.begin(), all.end());
  } else if (!what.user_id.empty()) {
    servers = roster_.servers_of_user(what.user_id);
  } else {
    auto room = roster_.known(what.room_id);
    if (!room) return unknown_room(what.room_id);
    servers = roster_.servers_of(*room);
  }
  if (servers->empty()) return {};
  std::string body = "{\"content\":" + what.content + ",\"edu_type\":" + json_string(what.edu_type) + "}";
  entries_->push_back(
      {entry_kind::ephemeral, 0, what.room_id, what.key, what.edu_type, std::move(body), now_ms_, std::move(servers)});
  return {};
}

std::optional<record_problem> feed_writer::take(const to_device_record& what) {
  for (auto& part : split_to_device(what)) {
    auto server = names_.server(part.destination);
    if (server == our_server) continue;
    // Fed again it is the same in all of this. A host that splits one client call into several records uses one id in
    // all.
    auto message = log_.see(
        "t|" + what.sender + "|" + what.message_id + "|" + part.destination + "|" + base64(sha256(part.edu)), now_ms_);
    if (!message) continue;
    auto pos = log_.append_to_device(server, *message, part.message_id, part.edu, now_ms_);
    destinations_.ensure(server, pos - 1, now_ms_);
    destinations_.bound_to_device(server, static_cast<std::int64_t>(part.edu.size()), now_ms_);
    auto servers = std::make_shared<const std::vector<std::string>>(1, part.destination);
    entries_->push_back(
        {entry_kind::to_device, pos, "", part.message_id, "", std::move(part.edu), now_ms_, std::move(servers)});
  }
  return {};
}

std::optional<record_problem> feed_writer::take(const roster_record& what) {
  roster_.replace(what.room_id, what.members, now_ms_);
  roster_.set_version(names_.room(what.room_id), what.room_version);
  joins_.ours_changed(what.room_id, now_ms_, *entries_);
  return {};
}

std::optional<record_problem> feed_writer::take(const membership_record& what) {
  const auto room = names_.room(what.room_id);
  const auto was = roster_.find_member(room, what.user_id);
  roster_.change(what.room_id, what.user_id, what.membership, what.event_id, now_ms_);
  roster_.learn_version(room, what.room_version);
  if (what.membership == "join" && !(was && was->membership == "join")) tell_of_join(what, room);
  if (what.membership != "join") joins_.ours_changed(what.room_id, now_ms_, *entries_);
  return {};
}

/// A user of ours came to a room with other servers: those that shared nothing with it are owed its devices (L2).
void feed_writer::tell_of_join(const membership_record& what, row_id room) {
  if (names_.server(server_of(what.user_id)) != our_server) return;
  const auto member = roster_.find_member(room, what.user_id);
  auto servers = roster_.servers_of(room);
  if (servers->empty() || !member || member->membership != "join") return;
  auto pos = devices_.share(what.user_id, room, now_ms_);
  entries_->push_back({entry_kind::share, pos, what.room_id, what.user_id, "", {}, now_ms_, std::move(servers)});
}

/// Other servers, and the host's own users (F9), hear of a change of a user's list.
void feed_writer::tell_of_change(const list_change& what, entry_kind kind, const std::string& user,
                                 const std::string& device, bool announce) {
  if (what.changed && announce) changed_.insert(user);
  if (what.pos == 0) return;
  auto servers = roster_.servers_of_user(user);
  if (!servers->empty()) entries_->push_back({kind, what.pos, "", user, device, {}, now_ms_, std::move(servers)});
}

std::optional<record_problem> feed_writer::take(const device_record& what) {
  if (auto refused = devices_.refuse(what)) return refused;
  tell_of_change(devices_.apply(what, now_ms_), entry_kind::device, what.user_id, what.device_id, !what.initial);
  return {};
}

std::optional<record_problem> feed_writer::take(const cross_signing_record& what) {
  if (auto refused = devices_.refuse(what)) return refused;
  tell_of_change(devices_.apply(what, now_ms_), entry_kind::signing, what.user_id, "", true);
  return {};
}

std::optional<record_problem> feed_writer::take(const one_time_keys_record& what) { return devices_.apply(what); }

std::optional<record_problem> feed_writer::take(const partial_join_record& what) {
  record_join join;
  join.room_id = what.room_id;
  join.room_version = what.room_version;
  join.user_id = what.user_id;
  join.event_id = what.event_id;
  join.event = what.event;
  join.joined_via = what.joined_via;
  join.servers_in_room = what.servers_in_room;
  join.members_omitted = join.by_host = true;
  join.since = what.since;
  joins_.record(join, now_ms_, *entries_);
  return {};
}

std::optional<record_problem> feed_writer::take(const server_acl_record& what) {
  rooms_.apply(what);
  return {};
}

std::optional<record_problem> feed_writer::take(const room_forgotten_record& what) {
  joins_.forget(what.room_id, what.now, now_ms_, *entries_);
  roster_.forget_room(what.room_id, what.now, now_ms_);
  return {};
}

} // namespace ranvier::storage
