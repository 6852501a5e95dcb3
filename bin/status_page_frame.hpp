#pragma once
#include <string>

namespace ranvier {

/// What stands around the inside of the status page: head, style, and the script that keeps it live. `title` is safe
/// HTML.
std::string page_before(const std::string& title);
std::string page_after();

} // namespace ranvier
