#include "messages/verbatim_numbers.hpp"

#include "messages/canonical_json.hpp"
#include "messages/number_tokens.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>

namespace ranvier {

namespace {

constexpr std::size_t digits_of_every_library = 15; ///< any integer of so many is within +-(2^53 - 1)

bool is_odd(std::string_view token) {
  const bool minus = token.starts_with('-');
  const auto digits = minus ? token.substr(1) : token;
  return digits.size() > digits_of_every_library || (minus && digits == "0") ||
         !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Nobody outside can guess it, so no string of a peer's is taken for a number of ours.
std::string unguessable() {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::string out;
  for (const auto byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

} // namespace

bool has_odd_numbers(std::string_view json) {
  bool odd = false;
  walk_numbers(
      json, [](std::string_view) {}, [&odd](std::string_view token) { odd = odd || is_odd(token); });
  return odd;
}

std::string canonical_body_verbatim(std::string_view json) {
  const auto mark = '"' + unguessable();
  // Odd numbers travel through the parser as marked strings.
  std::string marked;
  marked.reserve(json.size() + json.size() / 8);
  walk_numbers(
      json, [&marked](std::string_view other) { marked += other; },
      [&](std::string_view token) {
        if (!is_odd(token)) marked += token;
        else marked.append(mark).append(token).append("\"");
      });
  const json_document document(marked, max_body_depth);
  const auto text = canonical_body(document.root());
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, copied)) {
    const auto end = text.find('"', at + mark.size());
    out.append(text, copied, at - copied).append(text, at + mark.size(), end - at - mark.size());
    copied = end + 1;
  }
  return out.append(text, copied);
}

} // namespace ranvier
