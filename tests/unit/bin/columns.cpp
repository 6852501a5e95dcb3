#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

namespace {

void check_list(const std::string& name, const char* member, const std::vector<column>& columns) {
  const auto answer = golden::answer(name);
  const std::vector<nlohmann::json> rows(answer[member].begin(), answer[member].end());
  std::vector<const column*> shown;
  for (const auto& one : columns)
    if (!one.wide) shown.push_back(&one);
  golden::check(name, [&](const screen& on) { return table_text(rows, shown, golden::now, true, on); });
}

} // namespace

TEST_CASE("columns: golden files of every listing") {
  check_list("ls", "destinations", destination_columns());
  check_list("queue", "queue", queue_columns());
  check_list("rooms", "rooms", room_columns());
  check_list("attempts", "attempts", attempt_columns());
  check_list("audit", "audit", audit_columns());
  check_list("stale-users", "stale_users", stale_user_columns());
  check_list("actors", "actors", actor_columns());
  check_list("partial-joins", "partial_joins", join_columns());
  check_list("holds", "destinations", hold_columns());
  check_list("quarantine", "quarantine", quarantine_columns());
}
