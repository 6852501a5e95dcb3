#include "bin/screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace ranvier {

screen screen_of(int descriptor) {
  screen out;
  if (!::isatty(descriptor)) return out;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0) out.columns = size.ws_col;
  const char* term = std::getenv("TERM");
  const char* refused = std::getenv("NO_COLOR");
  out.colour = !(refused && *refused) && term && std::string_view(term) != "dumb";
  return out;
}

std::string painted(const std::string& text, tone how, const screen& on) {
  if (!on.colour || how == tone::plain || text.empty()) return text;
  const char* code = how == tone::good    ? "32"
                     : how == tone::bad   ? "31"
                     : how == tone::warn  ? "33"
                     : how == tone::faint ? "2"
                                          : "1";
  return "\x1b[" + std::string(code) + 'm' + text + "\x1b[0m";
}

tone tone_of_state(const std::string& state) {
  if (state == "open") return tone::good;
  return state == "closed" ? tone::bad : state.empty() ? tone::plain : tone::warn;
}

std::size_t width_of(const std::string& text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') { // a colour takes no room
      while (i < text.size() && text[i] != 'm')
        ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++width;
  }
  return width;
}

std::string cut(const std::string& text, std::size_t columns) {
  if (columns == 0 || width_of(text) <= columns) return text;
  std::string out;
  std::size_t width = 0;
  for (char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && ++width == columns) break;
    out += c;
  }
  return out + "…";
}

std::string labelled(const std::string& label, const std::string& text, const screen& on, std::size_t indent,
                     std::size_t label_width) {
  const auto at = indent + std::max(label_width, width_of(label) + 2);
  std::string out = std::string(indent, ' ') + painted(label, tone::faint, on);
  out += std::string(at - indent - width_of(label), ' ');
  // A screen so narrow that nothing fits beside the label is let to break the lines itself.
  const auto room = on.columns > at + 20 ? on.columns - at : 0;
  std::istringstream words(text);
  std::size_t used = 0;
  for (std::string word; std::getline(words, word, ' ');) {
    const auto width = width_of(word);
    if (used > 0 && room > 0 && used + 1 + width > room) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n' + std::string(at, ' ');
      used = 0;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += width;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

} // namespace ranvier
