#include "bin/arguments.hpp"

#include <algorithm>

namespace ranvier {

std::vector<std::string> verb_first(const std::vector<std::string>& words, const std::set<std::string>& verbs,
                                    const std::set<std::string>& flags) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-') {
      // "--name=value" and "-ovalue" carry theirs.
      bool carries = word[1] == '-' ? word.find('=') != std::string::npos : word.size() > 2;
      if (!carries && !flags.contains(word)) ++i;
      continue;
    }
    if (!verbs.contains(word)) break; // a wrong verb: the parser says so
    auto out = words;
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i),
                out.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return out;
  }
  return words;
}

} // namespace ranvier
