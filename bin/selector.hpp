#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ranvier {

/// SELECTOR of API.md section 6: a name, a glob, conditions, or names read from elsewhere; all given ones must hold.
struct selector {
  std::string pattern;                           ///< name or glob; empty: all
  std::optional<std::vector<std::string>> names; ///< "-": those of standard input, instead of a pattern
  std::string state, error;                      ///< gate.state, last_error.class; empty: any
  std::int64_t older_ms = -1;                    ///< what waits longest is at least as old; -1: any

  /// Nothing at all is given.
  bool empty() const;
  /// A single plain name and no condition: needs no listing.
  bool one_name() const;
  /// `destination` is a D of API.md section 5.
  bool matches(const nlohmann::json& destination) const;
};

/// Names from a text: one or more a line, white space between, '#' begins a comment.
std::vector<std::string> names_in(const std::string& text);

} // namespace ranvier
