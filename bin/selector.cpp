#include "bin/selector.hpp"

#include "bin/table.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <sstream>

namespace ranvier {

bool selector::empty() const { return pattern.empty() && !names && state.empty() && error.empty() && older_ms < 0; }

bool selector::one_name() const {
  return !pattern.empty() && pattern.find_first_of("*?") == std::string::npos && state.empty() && error.empty() &&
         older_ms < 0;
}

bool selector::matches(const nlohmann::json& destination) const {
  auto name = text_in(destination, "destination");
  const auto& gate = object_in(destination, "gate");
  if (names && std::find(names->begin(), names->end(), name) == names->end()) return false;
  if (!pattern.empty() && !glob_matches(pattern, name)) return false;
  if (!state.empty() && text_in(gate, "state") != state) return false;
  if (!error.empty() && text_in(object_in(gate, "last_error"), "class") != error) return false;
  return older_ms < 0 || number_in(object_in(destination, "pending"), "oldest_age_ms") >= older_ms;
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;)
      out.push_back(word);
  }
  return out;
}

} // namespace ranvier
