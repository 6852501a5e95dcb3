#include "bin/screen.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("screen: words are broken at the edge, under where they began") {
  CHECK(labelled("because", "one two three", {}) == "  because      one two three\n");
  CHECK(labelled("because", "one two three four five six", {38, false}) ==
        "  because      one two three four five\n               six\n");
  CHECK(labelled("a-label-that-is-long", "x", {}) == "  a-label-that-is-long  x\n");
  CHECK(labelled("none", "", {}) == "  none\n");
}

TEST_CASE("screen: widths count characters, not bytes and not colours") {
  CHECK(width_of("añb") == 3);
  CHECK(width_of("\x1b[31mred\x1b[0m") == 3);
  CHECK(cut("abcdef", 4) == "abc…");
  CHECK(cut("añbñc", 3) == "añ…");
  CHECK(cut("abc", 3) == "abc");
  CHECK(cut("abc", 0) == "abc");
}

TEST_CASE("screen: colour only where there is colour") {
  CHECK(painted("x", tone::bad, {}) == "x");
  CHECK(painted("x", tone::bad, {0, true}) == "\x1b[31mx\x1b[0m");
  CHECK(painted("", tone::bad, {0, true}).empty());
  CHECK(tone_of_state("open") == tone::good);
  CHECK(tone_of_state("held") == tone::warn);
}
