#include "storage/kept_updates.hpp"

namespace ranvier::storage {

bool kept_updates::any_partial() { return db_.integer("SELECT 1 FROM partial_join LIMIT 1").has_value(); }

void kept_updates::keep(std::string_view user, std::string_view device, std::int64_t now_ms) {
  const bool many =
      db_.integer("SELECT count(*) FROM kept_update WHERE user = ?", user).value_or(0) >= devices_told_apart;
  db_.run("INSERT OR IGNORE INTO kept_update(user, device, at_ms) VALUES(?, ?, ?)", user,
          many ? std::string_view() : device, now_ms);
}

std::vector<std::string> kept_updates::settle() {
  std::vector<std::string> placed;
  {
    auto rows = db_.ask("SELECT DISTINCT user FROM kept_update ORDER BY user");
    while (rows.step())
      if (auto user = rows.text(0); shares_a_room(db_, user)) placed.push_back(std::move(user));
  }
  if (!any_partial()) db_.run("DELETE FROM kept_update");
  else
    for (const auto& user : placed)
      db_.run("DELETE FROM kept_update WHERE user = ?", user);
  return placed;
}

} // namespace ranvier::storage
