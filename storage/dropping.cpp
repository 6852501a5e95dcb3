#include "storage/dropping.hpp"

#include "storage/extra_store.hpp"
#include "storage/owed.hpp"
#include "storage/quarantine.hpp"

#include <algorithm>
#include <limits>

namespace ranvier::storage {

namespace {

constexpr std::size_t most_extras = 1'000'000;

/// The last position of a table whose moment is before `moment_ms`; moments grow with positions (but for a clock that
/// was set back: then a little more or less is older).
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

/// All kinds share one sequence of positions.
position last_before(database& db, position head, std::int64_t moment_ms) {
  position upto = 0;
  for (const auto sql : {"SELECT position, at_ms FROM pdu WHERE position >= ? ORDER BY position LIMIT 1",
                         "SELECT position, at_ms FROM to_device WHERE position >= ? ORDER BY position LIMIT 1",
                         "SELECT position, at_ms FROM device_entry WHERE position >= ? ORDER BY position LIMIT 1"})
    upto = std::max(upto, last_before(db, sql, head, moment_ms));
  return upto;
}

std::int64_t device_changes(database& db, row_id server, position after, position upto) {
  return db
      .integer("SELECT count(*) FROM (SELECT DISTINCT m.user FROM span s INDEXED BY span_by_server CROSS JOIN member m "
               "INDEXED BY member_joined ON m.room = s.room AND m.server = 1 AND m.membership = 'join' "
               "WHERE s.server = ?1 AND s.until = 9223372036854775807) u CROSS JOIN device_entry e "
               "INDEXED BY device_entry_newest_of_user ON e.user = u.user AND e.newest = 1 AND e.position > ?2 "
               "AND e.position <= ?3 AND e.kind <> 4",
               server, after, upto)
      .value_or(0);
}

void plan_extras(database& db, row_id server, drop_plan& plan) {
  for (const auto& one : extra_store(db).next(server, 0, most_extras))
    if (one.pos <= plan.upto) plan.extras.push_back(one.pos);
  auto rows = db.ask("SELECT room, from_position, to_position FROM list_extra WHERE server = ?", server);
  while (rows.step())
    if (rows.integer(1) < plan.upto)
      plan.list_extras.emplace_back(rows.integer(0), std::min(rows.integer(2), plan.upto));
}

void plan_retried(database& db, row_id server, std::int64_t before_ms, drop_plan& plan) {
  auto rows =
      db.ask("SELECT id, kind FROM quarantine WHERE server = ? AND retry = 1 AND since_ms < ?", server, before_ms);
  while (rows.step()) {
    plan.retried.push_back(rows.integer(0));
    ++(item_kind(rows.integer(1)) == item_kind::pdu ? plan.counts.pdus : plan.counts.to_device);
  }
}

} // namespace

drop_plan plan_drop(database& db, std::string_view server, const cursors& after, std::int64_t before_ms,
                    std::int64_t newest_kept) {
  drop_plan plan;
  const auto id = db.integer("SELECT id FROM server WHERE name = ?", server);
  if (!id) return plan;
  const auto head = db.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0);
  plan.upto = before_ms == 0 ? head : last_before(db, head, before_ms);
  plan_extras(db, *id, plan);
  owed_reader owed(db, newest_kept);
  const auto pdus = [&](position from) {
    return owed.count(server, {std::max(from, after.pdu), after.device_lists, after.to_device}).pdus;
  };
  plan.counts.pdus = pdus(0) - pdus(plan.upto) + std::int64_t(plan.extras.size());
  plan.counts.device_lists = device_changes(db, *id, after.device_lists, plan.upto);
  plan.counts.to_device =
      db.integer("SELECT count(*) FROM to_device WHERE server = ? AND position > ? AND position <= ?", *id,
                 after.to_device, plan.upto)
          .value_or(0);
  plan_retried(db, *id, before_ms == 0 ? std::numeric_limits<std::int64_t>::max() : before_ms, plan);
  return plan;
}

owed_dropped drop_owed(writer& stores, const std::string& server, std::int64_t before_ms, std::int64_t newest_kept,
                       std::int64_t now_ms) {
  owed_dropped out;
  const auto known = stores.destinations.find(server);
  if (!known) return out;
  const auto plan = plan_drop(stores.db, server, known->at, before_ms, newest_kept);
  const auto id = stores.names.server(server);
  const auto& counts = plan.counts;
  stores.destinations.acknowledge(id, {plan.upto, plan.upto, plan.upto}, {},
                                  counts.pdus + counts.device_lists + counts.to_device, 0, now_ms);
  extra_store(stores.db).acknowledge(id, plan.extras);
  acknowledge_list_extras(stores.db, id, plan.list_extras);
  quarantine(stores.db).taken(id, plan.retried);
  out.known = true;
  out.counts = counts;
  out.at = {std::max(known->at.pdu, plan.upto), std::max(known->at.device_lists, plan.upto),
            std::max(known->at.to_device, plan.upto)};
  return out;
}

} // namespace ranvier::storage
