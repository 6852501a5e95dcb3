#pragma once
#include "messages/canonical_json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// One member of an object that is about to be written.
struct json_member {
  std::string_view key;
  simdjson::dom::element value;
};

/// Appends canonical JSON to a string of the caller's (C1-C3). Made on the stack for one piece of work. All functions
/// throw json_problem; what was appended until then is rubbish.
class json_writer {
public:
  json_writer(std::string& out, numbers rule, int max_depth = max_json_depth)
      : out_(out), rule_(rule), max_depth_(max_depth) {}

  /// `depth`: how many containers are open around the value.
  void value(simdjson::dom::element value, int depth = 0);
  /// An object with only those members whose key `keep` likes.
  template <class Keep> void object(simdjson::dom::object object, int depth, Keep keep) {
    const auto first = members_.size();
    for (auto field : object)
      if (keep(field.key)) members_.push_back({field.key, field.value});
    write_members(first, depth);
  }

private:
  void array(simdjson::dom::array array, int depth);
  void write_members(std::size_t first, int depth);
  void integer(std::int64_t number);
  void large_integer(std::uint64_t number);
  void fraction(double number);

  std::string& out_;
  numbers rule_;
  int max_depth_;
  std::vector<json_member> members_; ///< of all objects that are open, one after the other: saves an allocation each
};

/// Throws the json_problem of JSON that is nested deeper than it may be.
[[noreturn]] void refuse_depth(int max_depth);

/// The members of an object by code point of their keys; throws json_problem for duplicates.
std::vector<json_member> sorted_members(simdjson::dom::object object);

} // namespace ranvier
