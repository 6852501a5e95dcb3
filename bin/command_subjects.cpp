// The verbs about partial joins and quarantine, as they are read.
#include "bin/command_line.hpp"

namespace ranvier {

void command_line::change_flags(CLI::App* sub, const char* loses) {
  sub->add_option("--reason", change_.reason, "why, for those who come later");
  sub->add_flag("--yes", change_.yes, std::string("don't ask before ") + loses);
  sub->add_flag("--dry-run", change_.dry_run, "only say what would be lost");
}

void command_line::join_verbs() {
  listing_flags(
      engine_verb("partial-joins", [this](const auto& engine) { return list_partial_joins(engine, listing_); }));
  auto* one = engine_verb("partial-join", [this](const auto& engine) {
    change_.output = listing_.output;
    return change_partial_join(engine, name_, action_, change_);
  });
  one->add_option("room", name_, "room id, like !room:example.org")->required();
  one->add_option("action", action_, "retry: ask all servers now; abandon: give the join up")
      ->required()
      ->check(CLI::IsMember({"retry", "abandon"}));
  change_flags(one, "the join is given up");
  output_option(one, {"text", "json"});
}

void command_line::quarantine_verbs() {
  auto* sub = engine_verb("quarantine", [this](const auto& engine) {
    if (action_.empty()) return list_quarantine(engine, listing_);
    change_.output = listing_.output;
    return change_quarantine(engine, name_, action_, change_);
  });
  sub->add_option("action", action_, "retry: send the item again; drop: let it go")
      ->check(CLI::IsMember({"retry", "drop"}));
  sub->add_option("id", name_, "which item, as the list shows it");
  listing_flags(sub);
  change_flags(sub, "the item is let go");
}

} // namespace ranvier
