#pragma once
#include "bin/completion.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ranvier {

/// Help as the table of verbs (bin/commands.hpp) has it: the verbs by groups with their arguments; for one verb its
/// arguments, options and examples.
class command_formatter : public CLI::Formatter {
public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_footer(const CLI::App* app) const override;
};

/// All verbs with their options, for the completion of shells. Throws std::logic_error if parser and table don't have
/// the same verbs.
std::vector<completed_verb> completed_verbs(const CLI::App& app);

} // namespace ranvier
