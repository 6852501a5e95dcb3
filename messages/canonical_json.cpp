#include "messages/canonical_json.hpp"

#include "messages/json_writer.hpp"
#include "messages/large_numbers.hpp"

#include <algorithm>

namespace ranvier {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw json_problem(true, sentence); }

/// What simdjson doesn't refuse: duplicate keys and our depth. `levels`: how many more are allowed. `keys` is scratch
/// space.
void check(simdjson::dom::element value, int levels, int max_depth, std::vector<std::string_view>& keys) {
  using type = simdjson::dom::element_type;
  const auto kind = value.type();
  if (kind != type::OBJECT && kind != type::ARRAY) return;
  if (levels <= 0) refuse_depth(max_depth);
  if (kind == type::ARRAY) {
    const simdjson::dom::array items = value.get_array().value_unsafe(); // named: a range-for keeps no temporary alive
    for (auto item : items) check(item, levels - 1, max_depth, keys);
    return;
  }
  const auto first = keys.size();
  const simdjson::dom::object fields = value.get_object().value_unsafe();
  for (auto field : fields) keys.push_back(field.key);
  const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(first);
  if (!std::is_sorted(begin, keys.end())) std::sort(begin, keys.end());
  const auto twice = std::adjacent_find(begin, keys.end());
  if (twice != keys.end()) refuse("An object has the key " + json_string(*twice) + " twice.");
  keys.resize(first);
  for (auto field : fields) check(field.value, levels - 1, max_depth, keys);
}

std::string sentence_of(simdjson::error_code error) {
  std::string text = simdjson::error_message(error);
  if (!text.ends_with('.')) text += '.';
  return text;
}

} // namespace

json_document::json_document(std::string_view text, int max_depth) {
  auto result = parser_.parse(simdjson::padded_string(text));
  if (result.error() == simdjson::NUMBER_ERROR)
    result = parser_.parse(simdjson::padded_string(with_large_numbers_as_doubles(text)));
  switch (result.error()) {
  case simdjson::SUCCESS: break;
  case simdjson::DEPTH_ERROR: refuse_depth(max_depth);
  case simdjson::UTF8_ERROR: throw json_problem(false, "The text is not valid UTF-8.");
  case simdjson::EMPTY: throw json_problem(false, "The text is empty, where JSON is wanted.");
  case simdjson::NUMBER_ERROR: throw json_problem(false, "The text is not JSON: a number is malformed or too large.");
  default: throw json_problem(false, "The text is not JSON; the parser says: " + sentence_of(result.error()));
  }
  std::vector<std::string_view> keys;
  check(root(), max_depth, max_depth, keys);
}

std::string canonical_json(simdjson::dom::element value, numbers rule,
                           std::initializer_list<std::string_view> without) {
  std::string out;
  json_writer writer(out, rule);
  if (without.size() == 0 || !value.is_object()) {
    writer.value(value);
    return out;
  }
  writer.object(value.get_object().value_unsafe(), 0, [&](std::string_view key) {
    return std::find(without.begin(), without.end(), key) == without.end();
  });
  return out;
}

std::string canonical_json(std::string_view text, numbers rule, std::initializer_list<std::string_view> without) {
  return canonical_json(json_document(text).root(), rule, without);
}

std::string canonical_body(simdjson::dom::element body) {
  std::string out;
  json_writer(out, numbers::lenient, max_body_depth).value(body);
  return out;
}

std::optional<std::string_view> string_member(simdjson::dom::element object, std::string_view key) {
  std::string_view text;
  if (object[key].get_string().get(text) != simdjson::SUCCESS) return std::nullopt;
  return text;
}

} // namespace ranvier
