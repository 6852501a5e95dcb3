// The verbs by which an operator runs the engine and lets things go, as they are read.
#include "bin/command_line.hpp"

namespace ranvier {

void command_line::run_verbs() {
  auto* drop = engine_verb("drop", [this](const auto& engine) {
    drop_.output = listing_.output;
    return drop_owed(engine, selector_, drop_);
  });
  drop->add_option("selector", selector_.pattern, "a name, a glob, or - for names from standard input");
  drop->add_option("--state", selector_.state, "only those in this state")
      ->check(CLI::IsMember({"open", "closed", "probing", "held", "denied"}));
  drop->add_option("--error", selector_.error, "only those whose last error is of this class");
  drop->add_option("--reason", drop_.reason, "why, for those who come later")->required();
  drop->add_option("--older", drop_.older, "only what waits as long, like 7d");
  drop->add_flag("--dry-run", drop_.dry_run, "only count what would be lost");
  drop->add_flag("--yes", drop_.yes, "don't ask");
  output_option(drop, {"text", "json"});
  auto* drain =
      engine_verb("drain", [this](const auto& engine) { return drain_engine(engine, drop_.within, listing_.output); });
  drain->add_option("--within", drop_.within, "for so long at most (60s)");
  output_option(drain, {"text", "json"});
  auto* report = engine_verb("report", [this](const auto& engine) {
    const auto socket = find_engine(engine_).socket;
    return write_report(engine, name_, socket.substr(0, socket.rfind('/')));
  });
  report->add_option("file", name_, "a file that doesn't exist yet")->required();
  auto* restart = engine_verb("restart-actor",
                              [this](const auto& engine) { return restart_actor(engine, name_, listing_.output); });
  restart->add_option("id", name_, "its id, as actors shows it")->required();
  output_option(restart, {"text", "json"});
}

} // namespace ranvier
