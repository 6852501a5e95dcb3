#include "messages/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ranvier {

namespace {

constexpr std::int64_t largest_integer = (std::int64_t{1} << 53) - 1; // C2

[[noreturn]] void refuse(const std::string& sentence) { throw json_problem(true, sentence); }

/// UTF-8 keeps the order of code points, so comparing bytes as unsigned, which string_view does, is C1's order.
void sort_by_key(std::vector<json_member>& members, std::size_t first) {
  const auto begin = members.begin() + static_cast<std::ptrdiff_t>(first);
  const auto less = [](const json_member& a, const json_member& b) { return a.key < b.key; };
  if (!std::is_sorted(begin, members.end(), less)) std::sort(begin, members.end(), less);
  const auto twice =
      std::adjacent_find(begin, members.end(), [](const auto& a, const auto& b) { return a.key == b.key; });
  if (twice != members.end()) refuse("An object has the key " + json_string(twice->key) + " twice.");
}

/// What an escape ends with, 'u' for \u00xx, 0 for a byte that stays as it is (C3).
constexpr std::array<char, 256> escapes = [] {
  std::array<char, 256> table{};
  for (int c = 0; c < 0x20; ++c) table[static_cast<std::size_t>(c)] = 'u';
  table['\b'] = 'b';
  table['\t'] = 't';
  table['\n'] = 'n';
  table['\f'] = 'f';
  table['\r'] = 'r';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}();

/// A double in the shortest form that reads back the same, laid out as Python's repr() does it: rooms of version 1 to 5
/// were made by a server in Python, and its bytes are what their hashes are over (C4).
void append_like_python(std::string& out, double number) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  if (text[0] == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const auto e = text.find('e');
  int exponent = 0;
  const auto exponent_text = text.substr(text[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  if (exponent < -4 || exponent >= 16) {
    out += text; // already d.ddde+XX with two digits of exponent
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    out.append(digits, 0, whole).append(".");
    out.append(digits.size() > whole ? digits.substr(whole) : "0");
  }
}

} // namespace

void refuse_depth(int max_depth) {
  refuse("The JSON is nested too deep; " + std::to_string(max_depth) + " levels are allowed.");
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const char escape = escapes[byte];
    if (escape == 0) continue;
    out.append(text, copied, i - copied);
    copied = i + 1;
    out += '\\';
    out += escape;
    if (escape == 'u') {
      out += "00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  out.append(text, copied);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

std::vector<json_member> sorted_members(simdjson::dom::object object) {
  std::vector<json_member> members;
  members.reserve(object.size());
  for (auto field : object) members.push_back({field.key, field.value});
  sort_by_key(members, 0);
  return members;
}

void json_writer::value(simdjson::dom::element value, int depth) {
  using type = simdjson::dom::element_type;
  switch (value.type()) {
  case type::OBJECT: return object(value.get_object().value_unsafe(), depth, [](std::string_view) { return true; });
  case type::ARRAY: return array(value.get_array().value_unsafe(), depth);
  case type::STRING: return append_json_string(out_, value.get_string().value_unsafe());
  case type::INT64: return integer(value.get_int64().value_unsafe());
  case type::UINT64: return large_integer(value.get_uint64().value_unsafe());
  case type::DOUBLE: return fraction(value.get_double().value_unsafe());
  case type::BOOL: out_ += value.get_bool().value_unsafe() ? "true" : "false"; return;
  case type::NULL_VALUE: out_ += "null"; return;
  }
}

void json_writer::array(simdjson::dom::array array, int depth) {
  if (depth >= max_depth_) refuse_depth(max_depth_);
  out_ += '[';
  bool first = true;
  for (auto item : array) {
    if (!first) out_ += ',';
    first = false;
    value(item, depth + 1);
  }
  out_ += ']';
}

void json_writer::write_members(std::size_t first, int depth) {
  if (depth >= max_depth_) refuse_depth(max_depth_);
  sort_by_key(members_, first);
  const auto end = members_.size();
  out_ += '{';
  for (auto i = first; i < end; ++i) {
    if (i != first) out_ += ',';
    const auto member = members_[i]; // a copy: the vector grows below
    append_json_string(out_, member.key);
    out_ += ':';
    value(member.value, depth + 1);
  }
  out_ += '}';
  members_.resize(first);
}

void json_writer::integer(std::int64_t number) {
  if (rule_ == numbers::strict && (number > largest_integer || number < -largest_integer))
    refuse("The number " + std::to_string(number) + " is beyond 2^53 - 1, which canonical JSON doesn't allow.");
  std::array<char, 24> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  out_.append(buffer.data(), end.ptr);
}

void json_writer::large_integer(std::uint64_t number) { // always beyond an int64
  if (rule_ == numbers::strict)
    refuse("The number " + std::to_string(number) + " is beyond 2^53 - 1, which canonical JSON doesn't allow.");
  out_ += std::to_string(number);
}

void json_writer::fraction(double number) {
  if (rule_ == numbers::strict)
    refuse("A number is no integer within 2^53 - 1, or is written with a fraction or exponent; canonical JSON doesn't "
           "allow that.");
  // V6: a whole number is written as an integer, however it was spelt.
  if (std::trunc(number) == number && std::fabs(number) <= static_cast<double>(largest_integer))
    return integer(static_cast<std::int64_t>(number));
  append_like_python(out_, number);
}

} // namespace ranvier
