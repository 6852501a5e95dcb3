#pragma once
#include "messages/json_writer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// A JSON object written canonically once, of which several selections of members are wanted: an event is hashed,
/// signed and sent as different selections of the same members. It views into the document that it was made of, so it
/// lives shorter.
class canonical_object {
public:
  /// Throws json_problem: no object, numbers, depth, duplicate keys.
  canonical_object(simdjson::dom::element object, numbers rule);

  /// Adds a member or replaces it; `key` must outlive this object, `value` is canonical JSON.
  void set(std::string_view key, std::string_view value);
  /// The object with those members whose key `keep` likes.
  template <class Keep> std::string only(Keep keep) const {
    std::string out;
    out.reserve(text_.size() + parts_.size() + 2);
    out += '{';
    for (const auto& one : parts_) {
      if (!keep(one.key)) continue;
      if (out.size() > 1) out += ',';
      out.append(text_, one.begin, one.end - one.begin);
    }
    out += '}';
    return out;
  }
  /// The same as an object.
  template <class Keep> canonical_object selected(Keep keep) const {
    canonical_object out;
    for (const auto& one : parts_) {
      if (!keep(one.key)) continue;
      const auto begin = out.text_.size();
      out.text_.append(text_, one.begin, one.end - one.begin);
      out.parts_.push_back({one.key, begin, out.text_.size()});
    }
    return out;
  }
  std::string whole() const {
    return only([](std::string_view) { return true; });
  }

private:
  canonical_object() = default;
  struct part {
    std::string_view key;
    std::size_t begin, end; ///< of `"key":value` in text_
  };
  part start(std::string_view key);

  std::string text_;
  std::vector<part> parts_; ///< by key
};

} // namespace ranvier
