#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// "1 room", "3 rooms".
std::string counted(std::int64_t count, const std::string& one, const std::string& many);
/// The parts that aren't empty.
std::string joined(const std::vector<std::string>& parts, const std::string& between);
std::string upper(std::string text);

} // namespace ranvier
