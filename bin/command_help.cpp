#include "bin/command_help.hpp"

#include "bin/commands.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

namespace ranvier {

namespace {

/// "config show" of a verb under another one; empty for the whole command line.
std::string path_of(const CLI::App* app) {
  if (app->get_parent() == nullptr) return {};
  const auto above = path_of(app->get_parent());
  return above.empty() ? app->get_name() : above + ' ' + app->get_name();
}

std::vector<const CLI::App*> below(const CLI::App* app) {
  return app->get_subcommands([](const CLI::App* one) { return !one->get_name().empty(); });
}

const command* row_of(const CLI::App* app) {
  const auto path = path_of(app);
  for (const auto& one : commands())
    if (one.verb == path) return &one;
  return nullptr;
}

/// What an option of a fixed set may be: the words between the braces of CLI11's "TEXT:{text,json}".
std::vector<std::string> choices_of(const CLI::Option* option) {
  const auto type = option->get_type_name();
  const auto open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::vector<std::string> out;
  std::istringstream words(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(words, word, ',');)
    out.push_back(word);
  return out;
}

completed_verb completed(const CLI::App* app, const command& row) {
  completed_verb out{row.verb, row.arguments, row.sentence, {}};
  for (const auto* option : app->get_options()) {
    if (option->get_positional() && option->get_lnames().empty()) continue;
    completed_option one;
    for (const auto& name : option->get_snames())
      one.names.push_back("-" + name);
    for (const auto& name : option->get_lnames())
      one.names.push_back("--" + name);
    one.sentence = option->get_description();
    one.takes_value = option->get_items_expected_max() > 0;
    one.choices = choices_of(option);
    out.options.push_back(std::move(one));
  }
  return out;
}

} // namespace

std::string command_formatter::make_usage(const CLI::App* app, std::string) const {
  const auto path = path_of(app);
  std::string line = "Usage: ranvier" + (path.empty() ? " VERB" : " " + path);
  if (const auto* row = row_of(app); row && !row->arguments.empty()) line += ' ' + row->arguments;
  else if (!path.empty() && !below(app).empty()) line += " VERB";
  return line + " [OPTIONS]\n";
}

std::string command_formatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const {
  if (app->get_parent() != nullptr || mode != CLI::AppFormatMode::Normal)
    return CLI::Formatter::make_subcommands(app, mode);
  std::ostringstream out;
  std::vector<std::string> groups;
  for (const auto& row : commands())
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) groups.push_back(row.group);
  for (const auto& group : groups) {
    out << '\n' << group << ":\n";
    for (const auto& row : commands()) {
      if (row.group != group) continue;
      const auto usage = row.arguments.empty() ? row.verb : row.verb + ' ' + row.arguments;
      CLI::detail::format_help(out, usage, row.sentence, 38);
    }
  }
  return out.str();
}

std::string command_formatter::make_footer(const CLI::App* app) const {
  if (app->get_parent() == nullptr) return "'ranvier VERB --help' shows options and examples of a verb.\n";
  const auto* row = row_of(app);
  if (!row || row->examples.empty()) return {};
  std::string out = "Examples:\n";
  for (const auto& example : row->examples)
    out += "  " + example + '\n';
  return out;
}

std::vector<completed_verb> completed_verbs(const CLI::App& app) {
  std::vector<completed_verb> out;
  std::set<std::string> parsed;
  std::vector<const CLI::App*> open = below(&app);
  while (!open.empty()) {
    const auto* one = open.back();
    open.pop_back();
    const auto deeper = below(one);
    open.insert(open.end(), deeper.begin(), deeper.end());
    if (const auto* row = row_of(one)) {
      parsed.insert(row->verb);
      out.push_back(completed(one, *row));
    } else if (deeper.empty()) {
      throw std::logic_error("the verb " + path_of(one) + " isn't in the table of bin/commands.cpp");
    }
  }
  for (const auto& row : commands())
    if (!parsed.contains(row.verb)) throw std::logic_error("the parser doesn't know the verb " + row.verb);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.verb < b.verb; });
  return out;
}

} // namespace ranvier
