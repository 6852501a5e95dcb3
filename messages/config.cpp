#include "messages/config.hpp"

#include "messages/config_schema.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ranvier {

namespace {

using json = nlohmann::json;

const std::vector<std::string>& default_ip_deny() {
  static const std::vector<std::string> ranges{
      "0.0.0.0/8",      "10.0.0.0/8",    "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16", "172.16.0.0/12",
      "192.0.0.0/24",   "192.0.2.0/24",  "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",  "198.51.100.0/24",
      "203.0.113.0/24", "224.0.0.0/4",   "240.0.0.0/4",    "::/128",         "::1/128",        "fc00::/7",
      "fe80::/10",      "2001:db8::/32", "ff00::/8"};
  return ranges;
}

setting setting_of(const json& value) {
  setting out;
  if (value.is_boolean()) {
    out.is = setting::type::boolean;
    out.boolean = value.get<bool>();
  } else if (value.is_number_integer()) {
    out.is = setting::type::integer;
    out.integer = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    out.is = setting::type::real;
    out.real = value.get<double>();
  } else if (value.is_string()) {
    out.is = setting::type::text;
    out.text = value.get<std::string>();
  } else if (value.is_array()) {
    out.is = setting::type::list;
    for (const auto& item : value)
      out.items.push_back(setting_of(item));
  } else if (value.is_object()) {
    out.is = setting::type::table;
    for (const auto& [key, item] : value.items())
      out.members.push_back({key, setting_of(item)});
  }
  return out;
}

/// One reading: gathers problems so that all are told at once.
class reading {
public:
  explicit reading(const std::string& file)
      : file_(file.empty() ? std::string("configuration") : file) {
    out.value.file = file;
    out.value.federation.ip_deny = default_ip_deny();
  }

  void toml(const std::string& text) {
    auto parsed = parse_toml(text, file_);
    if (!parsed.problem.empty()) {
      out.problems.push_back(parsed.problem);
      return;
    }
    for (const auto& [name, value] : parsed.members) {
      if (std::find(config_sections().begin(), config_sections().end(), name) != config_sections().end())
        section(name, value);
      else key(name, value);
    }
  }

  void environment(const std::map<std::string, std::string>& variables) {
    for (const auto& each : config_keys())
      if (auto found = variables.find(environment_name(each.path)); found != variables.end())
        given_as_text(each, found->second, found->first);
    for (const auto& [name, value] : variables)
      misspelt(name);
  }

  void flags(const std::map<std::string, std::string>& given) {
    for (const auto& [path, text] : given) {
      if (const auto* known = find_config_key(path)) given_as_text(*known, text, "flag for \"" + path + '"');
      else out.problems.push_back("unknown key \"" + path + '"' + suggest_key(path));
    }
  }

  void finish() {
    // A value that was refused would only be complained of twice.
    if (!out.problems.empty()) return;
    for (const auto& sentence : contradictions(out.value))
      out.problems.push_back(file_ + ": " + sentence);
  }

  config_result out;

private:
  void section(const std::string& name, const setting& value) {
    if (value.is != setting::type::table) {
      complain(value.line, '"' + name + "\" must be a section, written [" + name + ']');
      return;
    }
    for (const auto& [inner, each] : value.members)
      key(name + '.' + inner, each);
  }

  void key(const std::string& path, const setting& value) {
    if (const auto* known = find_config_key(path)) {
      if (auto problem = known->apply(out.value, value); !problem.empty())
        complain(value.line, '"' + path + "\" " + problem);
    } else if (value.is == setting::type::table && path.find('.') == std::string::npos) {
      auto nearest = nearest_name(path, config_sections());
      complain(value.line, "unknown section [" + path + ']' +
                               (nearest.empty() ? std::string() : "; did you mean [" + nearest + "]?"));
    } else {
      complain(value.line, "unknown key \"" + path + '"' + suggest_key(path));
    }
  }

  void given_as_text(const config_key& known, const std::string& text, const std::string& where) {
    setting value;
    if (known.kind == setting_kind::text || known.kind == setting_kind::duration) {
      value.is = setting::type::text;
      value.text = text;
    } else if (!parse_json_setting(text, value)) {
      value = {};
    }
    auto problem = known.apply(out.value, value);
    if (problem.empty()) return;
    if (known.kind == setting_kind::json) problem += " (as JSON)";
    out.problems.push_back(where + ": \"" + known.path + "\" " + problem);
  }

  /// Other programs may use RANVIER_...; only what looks like a slip of the pen in one of ours is a mistake.
  void misspelt(const std::string& name) {
    if (!name.starts_with("RANVIER_")) return;
    for (const auto& each : config_keys())
      if (environment_name(each.path) == name) return;
    for (const auto& section : config_sections()) {
      if (!name.starts_with(environment_name(section) + '_')) continue;
      std::vector<std::string> names;
      for (const auto& each : config_keys())
        if (each.path.starts_with(section + '.')) names.push_back(environment_name(each.path));
      auto nearest = nearest_name(name.substr(environment_name(section).size()), [&] {
        std::vector<std::string> tails;
        for (const auto& known : names)
          tails.push_back(known.substr(environment_name(section).size()));
        return tails;
      }());
      if (!nearest.empty())
        out.problems.push_back(name + ": unknown variable; did you mean " + environment_name(section) + nearest + '?');
      return;
    }
  }

  void complain(std::uint32_t line, const std::string& sentence) {
    out.problems.push_back(file_ + (line > 0 ? ':' + std::to_string(line) : std::string()) + ": " + sentence);
  }

  std::string file_;
};

} // namespace

bool parse_json_setting(const std::string& text, setting& out) {
  auto value = json::parse(text, nullptr, false);
  if (value.is_discarded()) return false;
  out = setting_of(value);
  return true;
}

config_result read_config(const std::string& text, const std::string& file,
                          const std::map<std::string, std::string>& environment,
                          const std::map<std::string, std::string>& flags) {
  reading all(file);
  all.toml(text);
  all.environment(environment);
  all.flags(flags);
  all.finish();
  return all.out;
}

} // namespace ranvier
