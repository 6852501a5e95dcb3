#include "storage/key_store.hpp"

namespace ranvier::storage {

void key_store::save(const remote_key_row& key) {
  // The same key seen again: it is valid for as long as was ever said. Another key under the same id: the newer answer
  // counts. A key that was retired stays retired.
  db_.run("INSERT INTO remote_key(server, key_id, key, valid_until_ms, expired_ms) VALUES(?, ?, ?, ?, ?) "
          "ON CONFLICT(server, key_id) DO UPDATE SET "
          "valid_until_ms = CASE WHEN key = excluded.key THEN max(valid_until_ms, excluded.valid_until_ms) "
          "ELSE excluded.valid_until_ms END, "
          "expired_ms = CASE WHEN key = excluded.key AND excluded.expired_ms = 0 THEN expired_ms "
          "ELSE excluded.expired_ms END, key = excluded.key",
          key.server, key.key_id, key.key, key.valid_until_ms, key.expired_ms);
}

std::vector<remote_key_row> key_store::find(std::string_view server) {
  std::vector<remote_key_row> out;
  auto rows = db_.ask("SELECT server, key_id, key, valid_until_ms, expired_ms FROM remote_key WHERE server = ? "
                      "ORDER BY key_id",
                      server);
  while (rows.step())
    out.push_back({rows.text(0), rows.text(1), rows.text(2), rows.integer(3), rows.integer(4)});
  return out;
}

} // namespace ranvier::storage
