#include "bin/words.hpp"

#include <cctype>

namespace ranvier {

std::string counted(std::int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string out;
  for (const auto& part : parts)
    if (!part.empty()) out += (out.empty() ? "" : between) + part;
  return out;
}

std::string upper(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

} // namespace ranvier
