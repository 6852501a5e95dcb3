#include "messages/large_numbers.hpp"

#include "messages/number_tokens.hpp"

#include <simdjson.h>

namespace ranvier {

namespace {

constexpr std::string_view largest_double = "1.7976931348623157e308";
constexpr std::size_t digits_that_fit = 18; ///< any integer of so many digits fits 64 bits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at]))
    ++at;
  return at;
}

enum class number_kind { broken, integer, fraction };

/// By the grammar of RFC 8259.
number_kind kind_of(std::string_view token) {
  std::size_t at = !token.empty() && token[0] == '-' ? 1 : 0;
  const auto whole = skip_digits(token, at);
  if (whole == at || (token[at] == '0' && whole > at + 1)) return number_kind::broken;
  if (whole == token.size()) return number_kind::integer;
  at = whole;
  if (token[at] == '.') {
    const auto end = skip_digits(token, at + 1);
    if (end == at + 1) return number_kind::broken;
    at = end;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    const auto end = skip_digits(token, at);
    if (end == at) return number_kind::broken;
    at = end;
  }
  return at == token.size() ? number_kind::fraction : number_kind::broken;
}

void append_number(std::string& out, std::string_view token, simdjson::dom::parser& parser) {
  const auto kind = kind_of(token);
  if (kind == number_kind::broken || (kind == number_kind::integer && token.size() <= digits_that_fit)) {
    out += token;
    return;
  }
  const auto fits = [&parser](std::string_view number) {
    return parser.parse(simdjson::padded_string(number)).error() == simdjson::SUCCESS;
  };
  if (fits(token)) {
    out += token;
    return;
  }
  const auto as_double = std::string(token) + "e0";
  if (kind == number_kind::integer && fits(as_double)) out += as_double;
  else (token[0] == '-' ? out += '-' : out) += largest_double;
}

} // namespace

std::string with_large_numbers_as_doubles(std::string_view text) {
  simdjson::dom::parser parser;
  std::string out;
  out.reserve(text.size() + 64);
  walk_numbers(
      text, [&out](std::string_view other) { out += other; },
      [&](std::string_view token) { append_number(out, token, parser); });
  return out;
}

} // namespace ranvier
