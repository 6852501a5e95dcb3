#include "storage/one_time_keys.hpp"

#include "messages/canonical_json.hpp"
#include "messages/signing.hpp"

namespace ranvier::storage {

namespace {

/// Of keys of deleted devices so many digests are remembered: some 15 MB.
constexpr std::int64_t max_gone = 100'000;

std::string algorithm_of(std::string_view key_id) { return std::string(key_id.substr(0, key_id.find(':'))); }

/// Of a key that was handed out only this is kept.
std::string digest(std::string_view key) { return base64(sha256(key)); }

record_problem other_bytes(const std::string& key_id) {
  return {"M_INVALID_PARAM", "\"one_time_keys\" holds another key under the id " + json_string(key_id) +
                                 ", which is known already; a key id is used once"};
}

std::int64_t count_left(database& db, std::string_view user, std::string_view device, const std::string& algorithm) {
  return db
      .integer("SELECT count(*) FROM one_time_key INDEXED BY one_time_key_left WHERE user = ? AND device = ? "
               "AND given_ms = 0 AND key_id >= ? AND key_id < ?",
               user, device, algorithm + ":", algorithm + ";")
      .value_or(0);
}

} // namespace

std::optional<record_problem> one_time_key_store::add(const one_time_keys_record& what) {
  std::map<std::string, bool> algorithms;
  std::vector<const std::pair<const std::string, std::string>*> fresh;
  for (const auto& one : what.one_time_keys) {
    auto row = db_.ask("SELECT key, given_ms FROM one_time_key WHERE user = ? AND device = ? AND key_id = ?",
                       what.user_id, what.device_id, one.first);
    if (!row.step()) fresh.push_back(&one);
    else if (row.view(0) != (row.integer(1) != 0 ? digest(one.second) : one.second)) return other_bytes(one.first);
  }
  for (const auto* one : fresh) {
    if (db_.integer("SELECT 1 FROM one_time_key_gone WHERE user = ? AND device = ? AND digest = ?", what.user_id,
                    what.device_id, digest(one->second)))
      continue;
    db_.run("INSERT INTO one_time_key(user, device, key_id, key) VALUES(?, ?, ?, ?)", what.user_id, what.device_id,
            one->first, one->second);
    algorithms[algorithm_of(one->first)] = true;
  }
  for (const auto& [algorithm, yes] : algorithms)
    db_.run("INSERT OR REPLACE INTO one_time_key_told(user, device, algorithm, left) VALUES(?, ?, ?, ?)", what.user_id,
            what.device_id, algorithm, count_left(db_, what.user_id, what.device_id, algorithm));
  set_fallback(what);
  return {};
}

void one_time_key_store::set_fallback(const one_time_keys_record& what) {
  using is = change<std::map<std::string, std::string>>::what;
  if (what.fallback_keys.is == is::removed)
    db_.run("DELETE FROM fallback_key WHERE user = ? AND device = ?", what.user_id, what.device_id);
  if (what.fallback_keys.is != is::given) return;
  // The same key fed again stays used.
  std::map<std::string, std::pair<std::string, bool>> had;
  {
    auto rows = db_.ask("SELECT key_id, key, used FROM fallback_key WHERE user = ? AND device = ?", what.user_id,
                        what.device_id);
    while (rows.step())
      had[rows.text(0)] = {rows.text(1), rows.integer(2) != 0};
  }
  for (const auto& [key_id, key] : what.fallback_keys.value) {
    auto algorithm = algorithm_of(key_id);
    db_.run("DELETE FROM fallback_key WHERE user = ? AND device = ? AND key_id >= ? AND key_id < ?", what.user_id,
            what.device_id, algorithm + ":", algorithm + ";");
  }
  for (const auto& [key_id, key] : what.fallback_keys.value) {
    auto was = had.find(key_id);
    db_.run("INSERT INTO fallback_key(user, device, key_id, key, used) VALUES(?, ?, ?, ?, ?)", what.user_id,
            what.device_id, key_id, key, was != had.end() && was->second.first == key && was->second.second);
  }
}

std::optional<one_time_key_store::a_key> one_time_key_store::take_one(const std::string& user,
                                                                      const std::string& device,
                                                                      const std::string& algorithm,
                                                                      std::int64_t now_ms) {
  a_key found;
  row_id id = 0;
  {
    auto row = db_.ask("SELECT id, key_id, key FROM one_time_key INDEXED BY one_time_key_left WHERE user = ? "
                       "AND device = ? AND given_ms = 0 AND key_id >= ? AND key_id < ? ORDER BY id LIMIT 1",
                       user, device, algorithm + ":", algorithm + ";");
    if (!row.step()) return {};
    id = row.integer(0);
    found = {row.text(1), row.text(2)};
  }
  db_.run("UPDATE one_time_key SET given_ms = ?, key = ? WHERE id = ?", now_ms, digest(found.text), id);
  return found;
}

std::optional<one_time_key_store::a_key> one_time_key_store::fallback(const std::string& user,
                                                                      const std::string& device,
                                                                      const std::string& algorithm, bool& first_use) {
  a_key found;
  {
    auto row = db_.ask("SELECT key_id, key, used FROM fallback_key WHERE user = ? AND device = ? AND key_id >= ? "
                       "AND key_id < ? ORDER BY key_id LIMIT 1",
                       user, device, algorithm + ":", algorithm + ";");
    if (!row.step()) return {};
    found = {row.text(0), row.text(1)};
    first_use = row.integer(2) == 0;
  }
  if (first_use)
    db_.run("UPDATE fallback_key SET used = 1 WHERE user = ? AND device = ? AND key_id = ?", user, device, found.id);
  return found;
}

claimed_own_keys one_time_key_store::claim(const claim_own_keys& what, std::int64_t now_ms) {
  claimed_own_keys out;
  for (const auto& [user, devices] : what.wanted)
    for (const auto& [device, algorithm] : devices) {
      bool first_use = false, low = false;
      auto found = take_one(user, device, algorithm, now_ms);
      if (found) {
        auto left = count_left(db_, user, device, algorithm);
        auto told = db_.integer("SELECT left FROM one_time_key_told WHERE user = ? AND device = ? AND algorithm = ?",
                                user, device, algorithm);
        low = left == 0 || 2 * left < told.value_or(0);
        if (low)
          db_.run("INSERT OR REPLACE INTO one_time_key_told(user, device, algorithm, left) VALUES(?, ?, ?, ?)", user,
                  device, algorithm, left);
      } else {
        found = fallback(user, device, algorithm, first_use);
      }
      if (!found) continue;
      out.keys[user][device].emplace(found->id, found->text);
      if (low || first_use) tell(user, device, now_ms);
    }
  return out;
}

void one_time_key_store::tell(const std::string& user, const std::string& device, std::int64_t now_ms) {
  std::string counts;
  for (const auto& [algorithm, left] : count_keys(db_, user, device).left) {
    if (!counts.empty()) counts += ',';
    append_json_string(counts, algorithm);
    counts += ':' + std::to_string(left);
  }
  inbox_.append("one_time_keys_low",
                "{\"counts\":{" + counts + "},\"device_id\":" + json_string(device) +
                    ",\"user_id\":" + json_string(user) + "}",
                now_ms);
}

void one_time_key_store::drop(std::string_view user, std::string_view device) {
  db_.run("INSERT OR IGNORE INTO one_time_key_gone(user, device, digest) SELECT user, device, key FROM one_time_key "
          "WHERE user = ? AND device = ? AND given_ms <> 0",
          user, device);
  db_.run("DELETE FROM one_time_key_gone WHERE id <= (SELECT max(id) FROM one_time_key_gone) - ?", max_gone);
  db_.run("DELETE FROM one_time_key WHERE user = ? AND device = ?", user, device);
  db_.run("DELETE FROM fallback_key WHERE user = ? AND device = ?", user, device);
  db_.run("DELETE FROM one_time_key_told WHERE user = ? AND device = ?", user, device);
}

one_time_key_counts count_keys(database& db, std::string_view user, std::string_view device) {
  one_time_key_counts out;
  {
    // Every algorithm that was ever uploaded, so that "none left" is said and not left out.
    auto rows = db.ask("SELECT algorithm FROM one_time_key_told WHERE user = ? AND device = ?", user, device);
    while (rows.step())
      out.left[rows.text(0)] = 0;
  }
  {
    auto rows = db.ask("SELECT substr(key_id, 1, instr(key_id, ':') - 1) AS algorithm, count(*) FROM one_time_key "
                       "INDEXED BY one_time_key_left WHERE user = ? AND device = ? AND given_ms = 0 GROUP BY algorithm",
                       user, device);
    while (rows.step())
      out.left[rows.text(0)] = rows.integer(1);
  }
  auto rows = db.ask("SELECT key_id FROM fallback_key WHERE user = ? AND device = ? AND used = 0 ORDER BY key_id", user,
                     device);
  while (rows.step()) {
    auto algorithm = algorithm_of(rows.view(0));
    if (out.unused_fallback_types.empty() || out.unused_fallback_types.back() != algorithm)
      out.unused_fallback_types.push_back(std::move(algorithm));
  }
  return out;
}

} // namespace ranvier::storage
