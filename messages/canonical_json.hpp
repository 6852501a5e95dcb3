#pragma once
#include <simdjson.h>

#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ranvier {

/// JSON that can't be used: not JSON (M_NOT_JSON), or JSON of a forbidden kind (M_BAD_JSON). what() is a sentence.
struct json_problem : std::runtime_error {
  json_problem(bool parsed, const std::string& sentence) : std::runtime_error(sentence), is_json(parsed) {}
  bool is_json; ///< true: it parsed, but may not be used so (M_BAD_JSON, H6)
};

/// How numbers are judged. `strict`: integers within +-(2^53 - 1) only, else json_problem (C2; v6+ rooms, C4).
/// `lenient`: other numbers are written as they can be (shortest form), for rooms of version 1 to 5 (C4).
enum class numbers { strict, lenient };

/// Deepest nesting of a thing that is accepted from anyone: an event, an EDU, a key, a record.
constexpr int max_json_depth = 100;
/// Deepest nesting of what another server says as a whole. Deeper than the things in it may be, so that one of these
/// that is too deep costs only itself.
constexpr int max_body_depth = 1'000;

/// Parsed JSON that owns its memory. Parsing refuses invalid UTF-8, depth beyond `max_depth` and duplicate keys.
/// Not copyable; one thread at a time.
class json_document {
public:
  /// Throws json_problem.
  explicit json_document(std::string_view text, int max_depth = max_json_depth);
  /// Elements are valid as long as the document is; a moved document gives new ones.
  simdjson::dom::element root() const { return parser_.doc.root(); }

private:
  simdjson::dom::parser parser_;
};

/// Canonical JSON (C1-C3): keys by code point, shortest form. Keys of the top-level object named in `without` are left
/// out (C5). Throws json_problem (numbers, depth, duplicate keys).
std::string canonical_json(simdjson::dom::element value, numbers rule = numbers::strict,
                           std::initializer_list<std::string_view> without = {});
/// The same from text.
std::string canonical_json(std::string_view text, numbers rule = numbers::strict,
                           std::initializer_list<std::string_view> without = {});

/// What another server signed, as a whole: any numbers, nested up to max_body_depth.
std::string canonical_body(simdjson::dom::element body);

/// A string as a JSON string with quotes (C3).
std::string json_string(std::string_view text);
void append_json_string(std::string& out, std::string_view text);

/// Member of an object as a string, or nothing if it is absent or no string.
std::optional<std::string_view> string_member(simdjson::dom::element object, std::string_view key);

} // namespace ranvier
