#include "storage/destination_store.hpp"

#include <algorithm>
#include <array>

namespace ranvier::storage {

namespace {

/// Servers whose waiting bytes are kept in memory.
constexpr std::size_t max_known_bytes = 20'000;
/// An interval that is still open has no end yet.
constexpr position no_end = 9'223'372'036'854'775'807;

lane_row read_lane(const query& row, int at) {
  lane_row lane;
  lane.closed = row.integer(at) != 0;
  lane.failures = static_cast<int>(row.integer(at + 1));
  lane.failing_since_ms = row.integer(at + 2);
  lane.next_attempt_ms = row.integer(at + 3);
  lane.interval_ms = row.integer(at + 4);
  lane.closed_on_connect = row.integer(at + 5) != 0;
  lane.last_error = {static_cast<failure_class>(row.integer(at + 6)),
                     static_cast<failure_stage>(row.integer(at + 7)),
                     static_cast<int>(row.integer(at + 8)),
                     row.text(at + 9),
                     row.text(at + 10),
                     row.integer(at + 11)};
  return lane;
}

constexpr std::string_view lane_columns_sql =
    "SELECT lane, closed, failures, failing_since_ms, next_attempt_ms, interval_ms, closed_on_connect, cls, stage, "
    "status, item, message, retry_after_ms FROM gate WHERE server = ?";

/// Everything of a destination but its gate.
#define RANVIER_DESTINATION_COLUMNS                                                                                    \
  "SELECT s.id, s.name, c.pdu, c.device_lists, c.to_device, c.last_success_ms, d.last_inbound_ms, d.let_go, "          \
  "h.server, h.reason, h.until_ms, "                                                                                   \
  "(SELECT count(*) FROM span WHERE span.server = s.id AND until = 9223372036854775807), "                             \
  "(SELECT count(*) FROM quarantine INDEXED BY quarantine_by_server WHERE quarantine.server = s.id "                   \
  "AND retry = 0) "                                                                                                    \
  "FROM destination d JOIN server s ON s.id = d.server JOIN cursor c ON c.server = d.server "                          \
  "LEFT JOIN hold h ON h.server = d.server "

destination_row read_destination(const query& row) {
  destination_row out;
  out.name = row.text(1);
  out.at = {row.integer(2), row.integer(3), row.integer(4)};
  out.gate.last_success_ms = row.integer(5);
  out.last_inbound_ms = row.integer(6);
  out.let_go = row.integer(7);
  if (!row.null(8)) out.hold = {true, row.text(9), row.integer(10)};
  out.rooms = static_cast<int>(row.integer(11));
  out.quarantined = row.integer(12);
  return out;
}

} // namespace

void destination_store::ensure(row_id server, position before, std::int64_t now_ms) {
  db_.run("INSERT OR IGNORE INTO destination(server, made_ms) VALUES(?, ?)", server, now_ms);
  if (db_.changes() == 0) return;
  db_.run("INSERT INTO cursor(server, pdu, device_lists, to_device) VALUES(?1, ?2, ?2, ?2)", server, before);
  if (is_denied(server)) open_interval(server, before);
}

void destination_store::acknowledge(row_id server, const cursors& at, const std::vector<position>& to_device,
                                    std::int64_t let_go, std::int64_t last_success_ms, std::int64_t now_ms) {
  ensure(server, 0, now_ms);
  db_.run("UPDATE cursor SET pdu = max(pdu, ?2), device_lists = max(device_lists, ?3), to_device = max(to_device, ?4), "
          "last_success_ms = max(last_success_ms, ?5) WHERE server = ?1",
          server, at.pdu, at.device_lists, at.to_device, last_success_ms);
  moved_ = true;
  std::vector<std::pair<position, row_id>> gone;
  for (auto one : to_device)
    if (auto message = db_.integer("SELECT message FROM to_device WHERE position = ? AND server = ?", one, server))
      gone.emplace_back(one, *message);
  {
    auto rows =
        db_.ask("SELECT position, message FROM to_device WHERE server = ? AND position <= ?", server, at.to_device);
    while (rows.step())
      gone.emplace_back(rows.integer(0), rows.integer(1));
  }
  for (auto [pos, message] : gone)
    delete_to_device(pos, server, message, now_ms);
  db_.run("DELETE FROM target WHERE server = ? AND position <= ?", server, at.pdu);
  db_.run("DELETE FROM closed WHERE server = ? AND to_position <= ?", server, at.pdu);
  if (let_go != 0) count_let_go(server, let_go);
}

std::int64_t destination_store::let_go_by(row_id server, const std::vector<position>& let_go_at,
                                          const std::vector<position>& pdus) {
  auto stands = [&](position at) { return db_.integer("SELECT 1 FROM pdu WHERE position = ?", at).has_value(); };
  auto count = std::count_if(let_go_at.begin(), let_go_at.end(), stands);
  // Only of what was logged in a closing anything goes early.
  const auto cursor = db_.integer("SELECT pdu FROM cursor WHERE server = ?", server).value_or(0);
  if (!pdus.empty() && db_.integer("SELECT 1 FROM closed WHERE server = ? AND to_position > ?", server, cursor))
    count -= std::count_if(pdus.begin(), pdus.end(), [&](position at) { return at > cursor && !stands(at); });
  return count;
}

void destination_store::delete_to_device(position at, row_id server, row_id message, std::int64_t now_ms) {
  if (auto known = waiting_bytes_.find(server); known != waiting_bytes_.end())
    known->second -= db_.integer("SELECT bytes FROM to_device WHERE position = ?", at).value_or(0);
  db_.run("DELETE FROM to_device WHERE position = ?", at);
  // It is remembered for its time from when its last part went.
  db_.run("UPDATE seen SET at_ms = ? WHERE id = ?", now_ms, message);
}

gate_row destination_store::gate(row_id server) {
  gate_row out;
  auto rows = db_.ask(lane_columns_sql, server);
  while (rows.step())
    (rows.integer(0) == 0 ? out.push : out.pull) = read_lane(rows, 1);
  return out;
}

void destination_store::save_gate(row_id server, const gate_row& gate) {
  auto stored = this->gate(server);
  const std::array<std::pair<const lane_row*, const lane_row*>, 2> lanes{
      {{&stored.push, &gate.push}, {&stored.pull, &gate.pull}}};
  for (int number = 0; number < 2; ++number) {
    const auto& [was, is] = lanes[static_cast<std::size_t>(number)];
    if (*was == *is) continue;
    if (*is == lane_row{}) {
      db_.run("DELETE FROM gate WHERE server = ? AND lane = ?", server, number);
      continue;
    }
    db_.run(
        "INSERT OR REPLACE INTO gate(server, lane, closed, failures, failing_since_ms, next_attempt_ms, interval_ms, "
        "closed_on_connect, cls, stage, status, item, message, retry_after_ms) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        server, number, is->closed, is->failures, is->failing_since_ms, is->next_attempt_ms, is->interval_ms,
        is->closed_on_connect, static_cast<int>(is->last_error.cls), static_cast<int>(is->last_error.stage),
        is->last_error.status, is->last_error.item, is->last_error.message, is->last_error.retry_after_ms);
  }
  db_.run("UPDATE cursor SET last_success_ms = ?2 WHERE server = ?1 AND last_success_ms < ?2", server,
          gate.last_success_ms);
}

bool destination_store::is_closed(row_id server) {
  return db_.integer("SELECT 1 FROM closed WHERE server = ? AND to_position = ?", server, no_end).has_value();
}

void destination_store::open_interval(row_id server, position head) {
  if (is_closed(server)) return;
  db_.run("INSERT OR REPLACE INTO closed(server, from_position, to_position) VALUES(?, ?, ?)", server, head, no_end);
}

void destination_store::close_interval(row_id server, position head) {
  db_.run("UPDATE closed SET to_position = ? WHERE server = ? AND to_position = ?", head, server, no_end);
  db_.run("DELETE FROM closed WHERE server = ?1 AND (to_position <= from_position OR "
          "to_position <= (SELECT pdu FROM cursor WHERE server = ?1))",
          server);
}

void destination_store::save_hold(row_id server, const hold_row& hold, std::string_view who, std::int64_t now_ms) {
  if (!hold.set) {
    db_.run("DELETE FROM hold WHERE server = ?", server);
    return;
  }
  db_.run("INSERT OR REPLACE INTO hold(server, reason, who, until_ms, since_ms) VALUES(?, ?, ?, ?, ?)", server,
          hold.reason, who, hold.until_ms, now_ms);
}

void destination_store::heard_from(row_id server, std::int64_t now_ms) {
  db_.run("UPDATE destination SET last_inbound_ms = max(last_inbound_ms, ?2) WHERE server = ?1", server, now_ms);
}

void destination_store::count_let_go(row_id server, std::int64_t items) {
  db_.run("UPDATE destination SET let_go = let_go + ?2 WHERE server = ?1", server, items);
}

std::int64_t destination_store::expire_to_device(std::int64_t before_ms, std::int64_t now_ms, std::int64_t at_most) {
  struct old_row {
    position pos;
    row_id server, message;
  };
  std::vector<old_row> old;
  {
    // Positions grow with time, so the oldest rows come first and the walk ends at the first young one.
    auto rows = db_.ask("SELECT position, server, message, at_ms FROM to_device ORDER BY position LIMIT ?", at_most);
    while (rows.step() && rows.integer(3) < before_ms)
      old.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
  }
  for (const auto& one : old) {
    delete_to_device(one.pos, one.server, one.message, now_ms);
    count_let_go(one.server, 1);
  }
  return static_cast<std::int64_t>(old.size());
}

std::int64_t destination_store::bound_to_device(row_id server, std::int64_t added, std::int64_t now_ms) {
  if (waiting_bytes_.size() >= max_known_bytes) waiting_bytes_.clear();
  auto [known, fresh] = waiting_bytes_.try_emplace(server, 0);
  if (!fresh) known->second += added;
  else
    known->second =
        db_.integer("SELECT sum(bytes) FROM to_device INDEXED BY to_device_by_server WHERE server = ?", server)
            .value_or(0);
  std::int64_t went = 0;
  while (known->second > max_to_device_bytes_) {
    position oldest = 0;
    row_id message = 0;
    {
      auto row = db_.ask("SELECT position, message FROM to_device WHERE server = ? ORDER BY position LIMIT 1", server);
      if (!row.step()) break;
      oldest = row.integer(0);
      message = row.integer(1);
    }
    delete_to_device(oldest, server, message, now_ms);
    ++went;
  }
  if (went > 0) count_let_go(server, went);
  return went;
}

std::optional<destination_row> destination_store::find(std::string_view name) {
  row_id id = 0;
  std::optional<destination_row> out;
  {
    auto row = db_.ask(RANVIER_DESTINATION_COLUMNS "WHERE s.name = ?", name);
    if (!row.step()) return out;
    id = row.integer(0);
    out = read_destination(row);
  }
  auto lanes = gate(id);
  out->gate.push = std::move(lanes.push);
  out->gate.pull = std::move(lanes.pull);
  return out;
}

std::vector<destination_row> destination_store::all() {
  std::vector<destination_row> out;
  std::vector<row_id> ids;
  {
    auto rows = db_.ask(RANVIER_DESTINATION_COLUMNS "ORDER BY s.name");
    while (rows.step()) {
      ids.push_back(rows.integer(0));
      out.push_back(read_destination(rows));
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto lanes = gate(ids[i]);
    out[i].gate.push = std::move(lanes.push);
    out[i].gate.pull = std::move(lanes.pull);
  }
  return out;
}

#undef RANVIER_DESTINATION_COLUMNS

} // namespace ranvier::storage
