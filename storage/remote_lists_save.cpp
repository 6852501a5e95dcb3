// Outcomes of resyncs (DESIGN section 7).
#include "messages/ids.hpp"
#include "storage/remote_lists.hpp"

#include <functional>

namespace ranvier::storage {

namespace {

/// A list that is too large is asked for again after this time.
constexpr std::int64_t too_large_wait_ms = 86'400'000;

std::optional<std::string> or_null(const std::string& text) {
  if (text.empty()) return {};
  return text;
}

} // namespace

device_list_saved remote_list_writer::save(const save_device_list& what, std::int64_t now_ms, std::vector<log_entry>&) {
  using outcome = save_device_list::outcome;
  auto was = find(what.user);
  if (!shares_a_room(db_, what.user)) {
    untrack(what.user, now_ms);
    return {};
  }
  auto is = what.is;
  if (is == outcome::list && static_cast<std::int64_t>(what.devices.size()) > devices_per_user_)
    is = outcome::too_large;
  switch (is) {
  case outcome::list:
    return save_list(what, was, now_ms);
  case outcome::too_large:
    return save_too_large(what, was, now_ms);
  case outcome::refused:
  case outcome::failed:
    break;
  }
  return save_failure(what, was, now_ms);
}

device_list_saved remote_list_writer::save_list(const save_device_list& what, const std::optional<row>& was,
                                                std::int64_t now_ms) {
  auto marks = was ? was->marks : 0;
  bool differs = !is_held_so(what);
  if (was && !was->stale && (marks != what.marks || what.stream_id < was->stream_id)) {
    // The list went on without a mark while this one was on its way; which of them is right, another fetch tells.
    if (!differs) return {true, {}, false, marks};
    return {true,
            {},
            true,
            mark_one(what.user, "the list that was fetched isn't what updates made of it", mark_kind::doubt, now_ms)};
  }
  bool in_time = marks == what.marks,
       gap = !was && (what.marks != 0 || was_untracked_since(what.user, what.began_ms, now_ms));
  store_list(what);
  bool helped = was && !was->mentioned.empty() &&
                db_.integer("SELECT 1 FROM remote_device WHERE user = ? AND device = ?", what.user, was->mentioned);
  db_.run("UPDATE remote_user SET stale = iif(?2, 0, stale), too_large = 0, failures = 0, next_attempt_ms = 0, "
          "problem = '', mentioned_ms = iif(?3, 0, mentioned_ms) WHERE user = ?1",
          what.user, in_time, helped);
  remember(what.user, what.stream_id);
  // The first list of somebody of whom nothing was announced is no change (B76); after a mark it is.
  if (was && was->held ? differs : was && was->stale) announcements_.changed({what.user}, now_ms);
  if (gap) {
    untracked_.erase(std::hash<std::string>{}(what.user));
    untracked_before_.erase(std::hash<std::string>{}(what.user));
    return {
        true, {}, true, mark_one(what.user, "no room was shared while its list was fetched", mark_kind::doubt, now_ms)};
  }
  return {true, {}, !in_time, marks};
}

/// What was fetched is what is held, devices and keys.
bool remote_list_writer::is_held_so(const save_device_list& what) {
  if (!db_.integer("SELECT 1 FROM remote_user WHERE user = ? AND held AND master_key IS ? AND self_signing_key IS ?",
                   what.user, or_null(what.master_key), or_null(what.self_signing_key)))
    return false;
  std::map<std::string, const remote_device*> devices;
  for (const auto& device : what.devices)
    devices[device.device] = &device;
  auto rows = db_.ask("SELECT device, keys, display_name FROM remote_device WHERE user = ?", what.user);
  std::size_t same = 0;
  while (rows.step()) {
    auto found = devices.find(rows.text(0));
    if (found == devices.end() || found->second->keys != rows.view(1) || found->second->display_name != rows.view(2))
      return false;
    ++same;
  }
  return same == devices.size();
}

/// Writes only what differs.
void remote_list_writer::store_list(const save_device_list& what) {
  db_.run("INSERT INTO remote_user(user, server) VALUES(?, ?) ON CONFLICT(user) DO NOTHING", what.user,
          names_.server(server_of(what.user)));
  std::set<std::string> gone;
  {
    auto rows = db_.ask("SELECT device FROM remote_device WHERE user = ?", what.user);
    while (rows.step())
      gone.insert(rows.text(0));
  }
  for (const auto& device : what.devices) {
    store_device(what.user, device);
    gone.erase(device.device);
  }
  for (const auto& device : gone)
    drop_device(what.user, device);
  db_.run("UPDATE remote_user SET held = 1, stream_id = ?2, master_key = ?3, self_signing_key = ?4 WHERE user = ?1",
          what.user, what.stream_id, or_null(what.master_key), or_null(what.self_signing_key));
}

/// The list goes; the user stays among the stale ones, and queries go to its server. Gives the marks.
std::int64_t remote_list_writer::give_up_list(const std::string& user, std::int64_t next_attempt_ms,
                                              std::int64_t now_ms) {
  auto marks = mark_one(user, "", mark_kind::doubt, now_ms);
  db_.run("UPDATE remote_user SET held = 0, too_large = 1, stream_id = 0, master_key = NULL, self_signing_key = NULL, "
          "cause = ?2, next_attempt_ms = ?3, failures = 0, problem = '', told = 1 WHERE user = ?1",
          user, "its list has more than " + std::to_string(devices_per_user_) + " devices", next_attempt_ms);
  db_.run("DELETE FROM remote_device WHERE user = ?", user);
  return marks;
}

device_list_saved remote_list_writer::save_too_large(const save_device_list& what, const std::optional<row>& was,
                                                     std::int64_t now_ms) {
  bool again = was && was->too_large;
  auto next = what.next_attempt_ms > 0 ? what.next_attempt_ms : now_ms + too_large_wait_ms;
  auto marks = give_up_list(what.user, next, now_ms);
  if (was && !again) announcements_.changed({what.user}, now_ms);
  return {true, {}, true, marks};
}

void remote_list_writer::tell_once(const row& was, std::int64_t now_ms) {
  if (was.told) return;
  announcements_.changed({was.user}, now_ms);
  db_.run("UPDATE remote_user SET told = 1 WHERE user = ?", was.user);
}

device_list_saved remote_list_writer::save_failure(const save_device_list& what, const std::optional<row>& was,
                                                   std::int64_t now_ms) {
  bool refused = what.is == save_device_list::outcome::refused;
  bool stale = was && was->stale;
  // A fetch that nothing but a query asked for leaves nothing behind, unless the user is to be left alone for a while.
  if (!stale && (!refused || was)) return {true, {}, false, was ? was->marks : 0};
  if (!stale) mark_one(what.user, "its server refused its list", mark_kind::doubt, now_ms);
  if (refused)
    db_.run("UPDATE remote_user SET problem = ?2, failures = ?3, next_attempt_ms = ?4 WHERE user = ?1", what.user,
            what.problem, what.failures, what.next_attempt_ms);
  else db_.run("UPDATE remote_user SET problem = ?2 WHERE user = ?1", what.user, what.problem);
  auto is = find(what.user);
  // L15: clients ask again, and are told that the server can't be asked.
  tell_once(*is, now_ms);
  return {true, {}, true, is->marks};
}

} // namespace ranvier::storage
