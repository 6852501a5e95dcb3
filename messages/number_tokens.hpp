#pragma once
#include <algorithm>
#include <string_view>

namespace ranvier {

/// Walks JSON text in one pass: `number` gets each token that stands where a number may (valid or not), `other` all
/// that stands between, strings with their escapes included.
template <class Other, class Number> void walk_numbers(std::string_view text, Other other, Number number) {
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
  };
  bool in_string = false;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 2 : 1;
      in_string = c != '"';
    } else if ((c >= '0' && c <= '9') || c == '-') {
      const auto start = i;
      while (i < text.size() && is_part(text[i]))
        ++i;
      other(text.substr(copied, start - copied));
      number(text.substr(start, i - start));
      copied = i;
    } else {
      in_string = c == '"';
      ++i;
    }
  }
  other(text.substr(std::min(copied, text.size())));
}

} // namespace ranvier
