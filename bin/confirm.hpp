#pragma once
#include <string>

namespace ranvier {

/// Before something is lost: asks on the terminal, unless `yes`. Throws cli_failure: 64 where nobody can be asked, 1 if
/// the answer isn't yes.
void confirm(const std::string& question, bool yes);

} // namespace ranvier
