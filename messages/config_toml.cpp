#include "messages/config_schema.hpp"

#include <toml++/toml.h>

#include <sstream>

namespace ranvier {

namespace {

setting setting_of(const toml::node& node) {
  setting out;
  out.line = node.source().begin.line;
  if (const auto* flag = node.as_boolean()) {
    out.is = setting::type::boolean;
    out.boolean = flag->get();
  } else if (const auto* integer = node.as_integer()) {
    out.is = setting::type::integer;
    out.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    out.is = setting::type::real;
    out.real = real->get();
  } else if (const auto* text = node.as_string()) {
    out.is = setting::type::text;
    out.text = text->get();
  } else if (const auto* list = node.as_array()) {
    out.is = setting::type::list;
    for (const auto& item : *list)
      out.items.push_back(setting_of(item));
  } else if (const auto* table = node.as_table()) {
    out.is = setting::type::table;
    for (const auto& [key, value] : *table)
      out.members.push_back({std::string(key.str()), setting_of(value)});
  }
  return out; // A date or a time: no key of ours takes one.
}

} // namespace

parsed_toml parse_toml(const std::string& text, const std::string& file) {
  parsed_toml out;
  try {
    auto table = toml::parse(std::string_view(text), std::string_view(file));
    out.members = setting_of(table).members;
  } catch (const toml::parse_error& problem) {
    out.problem =
        file + ':' + std::to_string(problem.source().begin.line) + ": not TOML: " + std::string(problem.description());
  }
  return out;
}

} // namespace ranvier
