#include "messages/json_slices.hpp"

#include "messages/canonical_json.hpp"

namespace ranvier {

namespace {

constexpr auto npos = std::string_view::npos;

[[noreturn]] void broken(const char* what) { throw json_problem(false, std::string("the JSON is broken: ") + what); }

std::size_t after_space(std::string_view text, std::size_t at) {
  const auto found = text.find_first_not_of(" \t\r\n", at);
  return found == npos ? text.size() : found;
}

char char_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) broken("it ends too early");
  return text[at];
}

/// Behind the string that begins at `at`.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at;; at += 2) {
    at = text.find_first_of("\"\\", at);
    if (at == npos) broken("a string doesn't end");
    if (text[at] == '"') return at + 1;
  }
}

/// Behind the object or list that begins at `at`. Which brackets belong together is judged when the slice is parsed.
std::size_t after_nested(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (true) {
    at = text.find_first_of("\"{}[]", at);
    if (at == npos) broken("an object or list doesn't end");
    const char c = text[at];
    if (c == '"') {
      at = after_string(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    else if (--depth == 0) return at;
  }
}

std::size_t after_value(std::string_view text, std::size_t at) {
  const char c = char_at(text, at);
  if (c == '"') return after_string(text, at);
  if (c == '{' || c == '[') return after_nested(text, at);
  const auto end = text.find_first_of(" \t\r\n,]}:", at);
  if (end == at) broken("a value is missing");
  return end == npos ? text.size() : end;
}

std::string unescaped(std::string_view string) {
  const auto inside = string.substr(1, string.size() - 2);
  if (inside.find('\\') == npos) return std::string(inside);
  const json_document document(string);
  std::string_view text;
  if (document.root().get(text)) broken("a name isn't a string");
  return std::string(text);
}

} // namespace

std::vector<std::pair<std::string, std::string_view>> member_slices(std::string_view object) {
  std::vector<std::pair<std::string, std::string_view>> out;
  auto at = after_space(object, 0);
  if (char_at(object, at) != '{') broken("an object was expected");
  at = after_space(object, at + 1);
  bool more = char_at(object, at) != '}';
  while (more) {
    if (char_at(object, at) != '"') broken("a member's name was expected");
    const auto name_end = after_string(object, at);
    auto name = unescaped(object.substr(at, name_end - at));
    at = after_space(object, name_end);
    if (char_at(object, at) != ':') broken("a colon was expected");
    at = after_space(object, at + 1);
    const auto end = after_value(object, at);
    out.emplace_back(std::move(name), object.substr(at, end - at));
    at = after_space(object, end);
    more = char_at(object, at) == ',';
    if (more) at = after_space(object, at + 1);
    else if (object[at] != '}') broken("a comma or the object's end was expected");
  }
  if (after_space(object, at + 1) != object.size()) broken("something follows its end");
  return out;
}

item_slices::item_slices(std::string_view list)
    : text_(list) {
  at_ = after_space(text_, 0);
  if (char_at(text_, at_) != '[') broken("a list was expected");
  at_ = after_space(text_, at_ + 1);
}

std::optional<std::string_view> item_slices::next() {
  if (over_) return {};
  const char c = char_at(text_, at_);
  if (c == ']' && first_) {
    over_ = true;
    return {};
  }
  const auto end = after_value(text_, at_);
  const auto item = text_.substr(at_, end - at_);
  at_ = after_space(text_, end);
  first_ = false;
  if (char_at(text_, at_) == ',') at_ = after_space(text_, at_ + 1);
  else if (text_[at_] == ']') over_ = true;
  else broken("a comma or the list's end was expected");
  return item;
}

} // namespace ranvier
