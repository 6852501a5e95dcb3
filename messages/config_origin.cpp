#include "messages/config_origin.hpp"

#include "messages/config_schema.hpp"

#include <algorithm>

namespace ranvier {

std::map<std::string, std::string> config_origins(const std::string& text, const std::string& file,
                                                  const std::map<std::string, std::string>& environment,
                                                  const std::map<std::string, std::string>& flags) {
  std::map<std::string, std::string> out;
  for (const auto& key : config_keys())
    out[key.path] = "default";
  const auto at = [&file](std::uint32_t line) {
    return file + (line > 0 ? ":" + std::to_string(line) : std::string());
  };
  for (const auto& [name, value] : parse_toml(text, file).members) {
    const auto& sections = config_sections();
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      out[name] = at(value.line);
      continue;
    }
    out['[' + name + ']'] = at(value.line);
    for (const auto& [inner, each] : value.members)
      out[name + '.' + inner] = at(each.line);
  }
  for (const auto& key : config_keys())
    if (const auto name = environment_name(key.path); environment.contains(name)) out[key.path] = name;
  for (const auto& [path, value] : flags)
    out[path] = "flag";
  return out;
}

} // namespace ranvier
