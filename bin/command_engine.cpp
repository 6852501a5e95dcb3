// The verbs about the engine itself, as they are read.
#include "bin/command_line.hpp"

namespace ranvier {

void command_line::engine_verbs() {
  listing_flags(engine_verb("holds", [this](const auto& engine) { return list_holds(engine, listing_); }));
  auto* wait = engine_verb(
      "wait", [this](const auto& engine) { return wait_for(engine, name_, action_, change_.lasts, listing_.output); });
  wait->add_option("name", name_, "server name")->required();
  wait->add_option("--for", action_, "delivered: nothing waits and nothing is in flight; open: its gate is open")
      ->required()
      ->check(CLI::IsMember({"delivered", "open"}));
  wait->add_option("--within", change_.lasts, "at most so long (10m)");
  output_option(wait, {"text", "json"});
  auto* actor = engine_verb("actor", [this](const auto& engine) { return show_actor(engine, name_, listing_.output); });
  actor->add_option("id", name_, "its id, as actors shows it")->required();
  output_option(actor, {"text", "json"});
  auto* level = engine_verb("log-level", [this](const auto& engine) {
    return change_log_level(engine, name_, change_.lasts, listing_.output);
  });
  level->add_option("level", name_, "what is logged from now on")
      ->required()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  level->add_option("--for", change_.lasts, "only so long, like 10m; then it is as before");
  output_option(level, {"text", "json"});
}

void command_line::database_verbs() {
  auto* db = app_.add_subcommand("db", "the database");
  db->require_subcommand(1);
  output_option(engine_verb(
                    "check", [this](const auto& engine) { return check_database(engine, listing_.output); }, db),
                {"text", "json"});
  auto* copy = engine_verb(
      "backup", [this](const auto& engine) { return back_up_database(engine, name_, listing_.output); }, db);
  copy->add_option("file", name_, "a file that doesn't exist yet; the engine writes it")->required();
  output_option(copy, {"text", "json"});
}

} // namespace ranvier
