#pragma once
#include "bin/cli_verbs.hpp"
#include "bin/serve.hpp"
#include "bin/sink.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ranvier {

/// The command line as CLI11 sees it: one subcommand a verb, each with its own options and what it then does.
class command_line {
public:
  command_line();
  /// Reads the words after the program's name, and does what they say. Throws cli_failure.
  int run(std::vector<std::string> words);

private:
  /// A verb of the table (bin/commands.hpp), which has its sentence and examples. Throws std::logic_error for another.
  CLI::App* verb(const std::string& name, std::function<int()> run, CLI::App* under = nullptr);
  /// A verb that asks an engine: has the options that say where that is.
  CLI::App* engine_verb(const std::string& name, const std::function<int(const admin_client&)>& run,
                        CLI::App* under = nullptr);
  void output_option(CLI::App* sub, const std::vector<std::string>& allowed) {
    sub->add_option("-o,--output", listing_.output, "how it is written")->check(CLI::IsMember(allowed));
  }
  void listing_flags(CLI::App* sub);
  void selector_flags(CLI::App* sub);
  void config_flags(CLI::App* sub);
  /// Of verbs that may lose something: --reason, --yes, --dry-run.
  void change_flags(CLI::App* sub, const char* loses);

  void local_verbs();
  void serve_verb();
  void sink_verb();
  void look_verbs();
  void inspect_verbs();
  void live_verbs();
  void act_verbs();
  void subject_verbs();
  void probe_verbs();
  void run_verbs();  // command_run.cpp
  void join_verbs(); // command_subjects.cpp
  void quarantine_verbs();
  void engine_verbs(); // command_engine.cpp
  void database_verbs();

  CLI::App app_{"Carries everything from a Matrix homeserver to all others.", "ranvier"};
  std::function<int()> run_;
  admin_options engine_;
  listing_options listing_;
  selector_options selector_;
  act_options act_;
  drop_options drop_;
  change_options change_;
  config_source config_;
  serve_options serve_;
  sink_options sink_;
  std::string name_, action_, out_file_, delay_, down_;
  std::vector<std::string> fail_, refuse_, poison_;
  bool follow_ = false, origin_ = false, no_cache_ = false;
  std::int64_t count_ = 100, times_ = 0;
  double seconds_ = 5;
};

} // namespace ranvier
