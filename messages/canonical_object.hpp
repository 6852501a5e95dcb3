#pragma once
#include "messages/json_writer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// A JSON object written canonically once, of which several selections of members are wanted: an event is hashed, signed
/// and sent as different selections of the same members. Views into the document that it was made of: lives shorter.
class canonical_object {
public:
  /// Throws json_problem: no object, numbers, depth, duplicate keys.
  canonical_object(simdjson::dom::element object, numbers rule);

  /// Adds a member or replaces it; `key` must outlive this object, `value` is canonical JSON.
  void set(std::string_view key, std::string_view value);
  /// The canonical text of a member's value; empty if it is absent. Valid until the next set().
  std::string_view member(std::string_view key) const;

  /// The object with those members whose key `keep` likes.
  template <class Keep> std::string only(Keep keep) const {
    std::string out;
    out.reserve(text_.size() + 2);
    for (const auto& one : parts_) {
      if (!keep(one.key)) continue;
      out += out.empty() ? '{' : ',';
      out.append(text_, one.begin, one.end - one.begin);
    }
    out += out.empty() ? "{}" : "}";
    return out;
  }
  std::string whole() const {
    return only([](std::string_view) { return true; });
  }

private:
  struct part {
    std::string_view key;
    std::size_t begin, value, end; ///< of `"key":value` in text_, and where its value starts
  };
  part write(std::string_view key);

  std::string text_;
  std::vector<part> parts_; ///< by key
};

} // namespace ranvier
