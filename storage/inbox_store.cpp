#include "storage/inbox_store.hpp"

#include "messages/canonical_json.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {
/// Remembered answers dropped in one step.
constexpr int forget_at_once = 20'000;
} // namespace

void inbox_store::reload() {
  auto stored = stored_bounds(db_);
  head_ = stored.head;
  reserved_ = stored.reserved;
  floor_ = stored.floor;
  bytes_ = db_.integer("SELECT coalesce(sum(length(CAST(json AS BLOB))), 0) FROM stream").value_or(0);
  ephemeral_.clear();
}

void inbox_store::rewind(const mark& to) {
  // Positions that were reserved before stay reserved; those that were given out were seen by nobody.
  head_ = to.head;
  reserved_ = to.reserved;
  floor_ = to.floor;
  bytes_ = to.bytes;
  ephemeral_.resize(std::min(ephemeral_.size(), to.ephemeral));
}

void inbox_store::set_consumers(const std::vector<std::string>& names) {
  std::vector<std::string> gone;
  {
    auto rows = db_.ask("SELECT name FROM consumer");
    while (rows.step())
      if (std::find(names.begin(), names.end(), rows.text(0)) == names.end()) gone.push_back(rows.text(0));
  }
  auto slowest = db_.integer("SELECT min(acked) FROM consumer").value_or(0);
  for (const auto& name : names)
    db_.run("INSERT OR IGNORE INTO consumer(name, acked) VALUES(?, ?)", name, slowest);
  for (const auto& name : gone)
    db_.run("DELETE FROM consumer WHERE name = ?", name);
  floor_ = db_.integer("SELECT min(acked) FROM consumer").value_or(0);
}

std::optional<std::string> inbox_store::find_answer(std::string_view origin, std::string_view txn_id) {
  return db_.text("SELECT answer FROM inbound WHERE origin = ? AND txn_id = ?", origin, txn_id);
}

void inbox_store::remember_answer(std::string_view origin, std::string_view txn_id, std::string_view answer,
                                  std::int64_t at_ms) {
  db_.run("INSERT OR REPLACE INTO inbound(origin, txn_id, answer, at_ms) VALUES(?, ?, ?, ?)", origin, txn_id, answer,
          at_ms);
}

void inbox_store::forget_answers(std::int64_t before_ms) {
  db_.run("DELETE FROM inbound WHERE (origin, txn_id) IN "
          "(SELECT origin, txn_id FROM inbound WHERE at_ms < ? ORDER BY at_ms LIMIT ?)",
          before_ms, forget_at_once);
}

position inbox_store::next() {
  if (head_ == reserved_) {
    reserved_ += block;
    db_.run("UPDATE meta SET value = ? WHERE key = 'stream_reserved'", reserved_);
  }
  return ++head_;
}

position inbox_store::append(std::string_view kind, std::string json, std::int64_t now_ms) {
  auto at = next();
  if (kind == "edu") {
    std::string type;
    try {
      json_document parsed(json);
      type = string_member(parsed.root(), "edu_type").value_or("");
    } catch (const json_problem&) {
      // An item that isn't JSON gets the age of an unknown type; the reader of the stream judges it.
    }
    ephemeral_.push_back({{at, std::string(kind), std::move(json)}, now_ms + ephemeral_age_ms(type)});
    return at;
  }
  db_.run("INSERT INTO stream(position, kind, json) VALUES(?, ?, ?)", at, kind, json);
  bytes_ += static_cast<std::int64_t>(json.size());
  return at;
}

bool inbox_store::acknowledge(std::string_view consumer, position upto) {
  auto acked = db_.integer("SELECT acked FROM consumer WHERE name = ?", consumer);
  if (!acked) return false;
  upto = std::min(upto, reserved_);
  if (upto <= *acked) return true;
  // Positions above the head but within what was reserved are never given out once somebody claims to have them.
  head_ = std::max(head_, upto);
  db_.run("UPDATE consumer SET acked = ? WHERE name = ?", upto, consumer);
  floor_ = db_.integer("SELECT min(acked) FROM consumer").value_or(0);
  bytes_ -= db_.integer("SELECT coalesce(sum(length(CAST(json AS BLOB))), 0) FROM stream WHERE position <= ?", floor_)
                .value_or(0);
  db_.run("DELETE FROM stream WHERE position <= ?", floor_);
  return true;
}

ephemeral_inbox::bounds stored_bounds(database& db) {
  // Positions of the block that was reserved last may have been used, by items in memory: none is used again.
  auto reserved = db.integer("SELECT value FROM meta WHERE key = 'stream_reserved'").value_or(0);
  return {reserved, reserved, db.integer("SELECT min(acked) FROM consumer").value_or(0), true};
}

std::vector<inbox_item> read_stream(database& db, position after, position upto, std::size_t limit) {
  std::vector<inbox_item> out;
  auto rows =
      db.ask("SELECT position, kind, json FROM stream WHERE position > ? AND position <= ? ORDER BY position LIMIT ?",
             after, upto, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back({rows.integer(0), rows.text(1), rows.text(2)});
  return out;
}

} // namespace ranvier::storage
