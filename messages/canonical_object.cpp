#include "messages/canonical_object.hpp"

#include <algorithm>

namespace ranvier {

canonical_object::canonical_object(simdjson::dom::element object, numbers rule) {
  simdjson::dom::object members;
  if (object.get_object().get(members) != simdjson::SUCCESS)
    throw json_problem(true, "This must be a JSON object.");
  json_writer writer(text_, rule);
  const auto sorted = sorted_members(members);
  parts_.reserve(sorted.size() + 2);
  for (const auto& [key, value] : sorted) {
    auto one = start(key);
    writer.value(value, 1);
    one.end = text_.size();
    parts_.push_back(one);
  }
}

canonical_object::part canonical_object::start(std::string_view key) {
  part one{key, text_.size(), 0};
  append_json_string(text_, key);
  text_ += ':';
  return one;
}

void canonical_object::set(std::string_view key, std::string_view value) {
  auto one = start(key);
  text_ += value;
  one.end = text_.size();
  const auto at = std::lower_bound(parts_.begin(), parts_.end(), key,
                                   [](const part& a, std::string_view wanted) { return a.key < wanted; });
  if (at != parts_.end() && at->key == key)
    *at = one;
  else
    parts_.insert(at, one);
}

} // namespace ranvier
