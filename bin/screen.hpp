#pragma once
#include <cstddef>
#include <string>

namespace ranvier {

/// Where words for people go.
struct screen {
  std::size_t columns = 0; ///< 0: as wide as it needs (a pipe)
  bool colour = false;
};

/// The terminal behind a file descriptor: its width, and colour unless NO_COLOR is set or TERM is dumb. No terminal: as
/// wide as it needs, without colour.
screen screen_of(int descriptor);

enum class tone { plain, good, bad, warn, faint, strong };
/// Text in a colour, if there is colour.
std::string painted(const std::string& text, tone how, const screen& on);
/// The colour of a gate's state: open is good, closed is bad, the others are to be looked at.
tone tone_of_state(const std::string& state);

/// Characters as a terminal counts them, near enough: code points; colours take none.
std::size_t width_of(const std::string& text);
/// At most so many columns, with an ellipsis where something is missing; 0: whole.
std::string cut(const std::string& text, std::size_t columns);

/// "  label      text\n": broken at spaces so that it fits, what follows under the text's beginning. `label` takes
/// `label_width` columns after `indent`.
std::string labelled(const std::string& label, const std::string& text, const screen& on, std::size_t indent = 2,
                     std::size_t label_width = 13);

} // namespace ranvier
