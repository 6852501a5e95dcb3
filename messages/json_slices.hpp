#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier {

/// Parts of a JSON text that is too long to be parsed whole: a send_join answer of 100 MB. Nothing is copied; only
/// where values begin and end is found out, so each slice must be parsed by whoever reads it. All throw json_problem if
/// the text is cut or isn't of the shape.

/// The members of an object: unescaped names and the raw text of their values.
std::vector<std::pair<std::string, std::string_view>> member_slices(std::string_view object);

/// The items of a list, one after the other.
class item_slices {
public:
  explicit item_slices(std::string_view list);
  /// The next item's raw text; nothing at the list's end.
  std::optional<std::string_view> next();

private:
  std::string_view text_;
  std::size_t at_ = 0;
  bool first_ = true, over_ = false;
};

} // namespace ranvier
