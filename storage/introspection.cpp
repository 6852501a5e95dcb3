#include "storage/introspection.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "storage/destination_store.hpp"
#include "storage/extra_store.hpp"
#include "storage/owed.hpp"
#include "storage/owed_stretches.hpp"
#include "storage/own_lists.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace ranvier::storage {

namespace {

constexpr std::size_t page_bytes = 64u << 20;

std::string member_of(std::string_view event, std::string_view name) {
  try {
    json_document document{std::string(event)};
    std::string_view text;
    if (document.root()[name].get(text)) return {};
    return std::string(text);
  } catch (const json_problem&) {
    return {};
  }
}

queued_item shown(const log_entry& event, bool extra) {
  const auto body = event.body.view();
  return {
      "pdu", event.pos, event.room_id, event.subject, member_of(body, "type"), event.at_ms, std::int64_t(body.size()),
      extra};
}

/// Entries of our users' lists that a server is owed. Share entries may turn out not to be (DESIGN section 4): left
/// out.
void add_devices(database& db, row_id server, position after, std::size_t limit, queue_page& page) {
  auto rows = db.ask(
      "SELECT e.position, e.kind, e.user, e.device, e.at_ms FROM (SELECT DISTINCT m.user FROM span s "
      "INDEXED BY span_by_server CROSS JOIN member m INDEXED BY member_joined ON m.room = s.room AND m.server = 1 "
      "AND m.membership = 'join' WHERE s.server = ?1 AND s.until = 9223372036854775807) u CROSS JOIN device_entry e "
      "INDEXED BY device_entry_newest_of_user ON e.user = u.user AND e.newest = 1 AND e.position > ?2 AND e.kind <> 4 "
      "ORDER BY e.position LIMIT ?3",
      server, after, static_cast<std::int64_t>(limit + 1));
  std::size_t taken = 0;
  while (rows.step()) {
    if (taken++ == limit) {
      page.more = true;
      break;
    }
    const bool signing = entry_kind(rows.integer(1)) == entry_kind::signing;
    page.items.push_back(
        {signing ? "signing" : "device", rows.integer(0), "", rows.text(2), rows.text(3), rows.integer(4), 0, false});
  }
}

/// The last position that is older than a moment; moments grow with positions, near enough for a picture.
position last_before(database& db, std::string_view sql, position head, std::int64_t moment_ms) {
  position low = 0, high = head; // all up to low are older, none above high is
  while (low < high) {
    const auto middle = low + (high - low + 1) / 2;
    auto row = db.ask(sql, middle);
    if (!row.step() || row.integer(1) >= moment_ms) high = middle - 1;
    else low = row.integer(0);
  }
  return low;
}

constexpr std::string_view event_at = "SELECT position, at_ms FROM pdu WHERE position >= ? ORDER BY position LIMIT 1";

std::size_t bucket_of(std::int64_t age_ms, const std::vector<std::int64_t>& bounds) {
  return std::size_t(std::lower_bound(bounds.begin(), bounds.end(), age_ms) - bounds.begin());
}

/// Events by age: what is above each bound's position, from the difference of counts.
void add_events(database& db, owed_reader& owed, const std::string& server, const cursors& at,
                const std::vector<position>& bounds_at, shape_row& row) {
  const auto id = db.integer("SELECT id FROM server WHERE name = ?", server);
  if (!id) return;
  const auto extras = extra_store(db).count(*id);
  auto above = [&](position from) {
    return owed.count(server, {std::max(from, at.pdu), at.device_lists, at.to_device}).pdus - extras;
  };
  std::int64_t younger = 0;
  const auto all = above(0);
  for (std::size_t i = 0; i < bounds_at.size() && younger < all; ++i) {
    const auto here = above(bounds_at[i]);
    row.counts[i] += here - younger;
    younger = here;
  }
  row.counts.back() += all - younger + extras; // what an extra owes is old
}

void add_rows(query rows, const read_shape& what, shape_row& row) {
  while (rows.step())
    ++row.counts[bucket_of(what.now_ms - rows.integer(0), what.bounds_ms)];
}

} // namespace

queue_page queue_of(database& db, const read_queue& what, std::int64_t newest_kept) {
  queue_page page;
  const auto id = db.integer("SELECT id FROM server WHERE name = ?", what.destination);
  if (!id) return page;
  const auto head = db.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0);
  auto owed = owed_reader(db, newest_kept)
                  .page(what.destination, what.after, head, {what.limit, page_bytes, what.limit, what.limit, 0});
  page.more = owed.more_pdus || owed.more_to_device || owed.more_extras;
  page.let_go = owed.let_go;
  add_devices(db, *id, what.after.device_lists, what.limit, page);
  for (const auto& one : owed.to_device)
    page.items.push_back(
        {"to_device", one.pos, "", one.subject, "", one.at_ms, std::int64_t(one.body.view().size()), false});
  for (const auto& one : owed.extras)
    page.items.push_back(shown(one, true));
  for (const auto& one : owed.pdus)
    page.items.push_back(shown(one, false));
  return page;
}

rooms_page shared_rooms(database& db, const read_rooms& what, std::int64_t newest_kept) {
  rooms_page page;
  const auto id = db.integer("SELECT id FROM server WHERE name = ?", what.destination);
  if (!id) return page;
  std::map<row_id, std::int64_t> waiting;
  owed_stretches owed(db, *id, what.destination, what.after.pdu, newest_kept);
  for (std::size_t i = 0; i < owed.size(); ++i)
    if (const auto kept = owed.kept(i); kept > 0) waiting[owed.room(i)] += kept;
  extra_store extras(db);
  for (const auto room : extras.rooms(*id, 0))
    waiting[room] += extras.count(*id, room);
  std::map<std::string, shared_room> all;
  auto rows =
      db.ask("SELECT r.id, r.name, r.version, EXISTS (SELECT 1 FROM partial_join p WHERE p.room = r.id), r.latest "
             "FROM span s INDEXED BY span_by_server JOIN room r ON r.id = s.room "
             "WHERE s.server = ?1 AND s.until = 9223372036854775807",
             *id);
  while (rows.step()) {
    const auto found = waiting.find(rows.integer(0));
    all[rows.text(1)] = {
        rows.text(1),   rows.text(2), rows.integer(3) != 0, true, found == waiting.end() ? 0 : found->second,
        rows.integer(4)};
    if (found != waiting.end()) waiting.erase(found);
  }
  for (const auto& [room, count] : waiting) {
    auto row = db.ask("SELECT name, version FROM room WHERE id = ?", room);
    if (row.step()) all[row.text(0)] = {row.text(0), row.text(1), false, false, count, 0};
  }
  for (auto one = all.upper_bound(what.from); one != all.end(); ++one) {
    page.more = page.rooms.size() >= what.limit;
    if (page.more) break;
    page.rooms.push_back(std::move(one->second));
  }
  return page;
}

shape_rows shape_of(database& db, const read_shape& what, std::int64_t newest_kept,
                    const std::function<bool()>& go_on) {
  shape_rows out;
  owed_reader owed(db, newest_kept);
  own_lists own(db, true);
  std::set<std::string> names;
  for (auto& list : {owed.list("", 1'000'000), own.owed_servers("", 1'000'000)})
    names.insert(list.begin(), list.end());
  const auto head = db.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0);
  std::vector<position> bounds_at;
  for (const auto bound : what.bounds_ms)
    bounds_at.push_back(last_before(db, event_at, head, what.now_ms - bound));
  destination_store destinations(db);
  for (const auto& name : names) {
    if (!what.glob.empty() && !glob_matches(what.glob, name)) continue;
    if (!go_on()) {
      out.whole = false;
      break;
    }
    const auto known = destinations.find(name);
    const auto id = db.integer("SELECT id FROM server WHERE name = ?", name);
    if (!known || !id) continue;
    shape_row row{name, std::vector<std::int64_t>(what.bounds_ms.size() + 1), 0};
    add_events(db, owed, name, known->at, bounds_at, row);
    add_rows(db.ask("SELECT at_ms FROM to_device WHERE server = ? AND position > ?", *id, known->at.to_device), what,
             row);
    add_rows(db.ask("SELECT e.at_ms FROM (SELECT DISTINCT m.user FROM span s INDEXED BY span_by_server CROSS JOIN "
                    "member m INDEXED BY member_joined ON m.room = s.room AND m.server = 1 AND m.membership = 'join' "
                    "WHERE s.server = ?1 AND s.until = 9223372036854775807) u CROSS JOIN device_entry e "
                    "INDEXED BY device_entry_newest_of_user ON e.user = u.user AND e.newest = 1 AND e.position > ?2 "
                    "AND e.kind <> 4 LIMIT 10000",
                    *id, known->at.device_lists),
             what, row);
    for (const auto count : row.counts)
      row.total += count;
    if (row.total > 0) out.rows.push_back(std::move(row));
  }
  return out;
}

} // namespace ranvier::storage
