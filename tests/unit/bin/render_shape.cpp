#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

TEST_CASE("render_shape: golden files") {
  golden::check("shape", [answer = golden::answer("shape")](const screen& on) { return shape_text(answer, on); });
}
