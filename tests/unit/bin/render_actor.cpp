#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;
using nlohmann::json;

TEST_CASE("render_actor: golden files") {
  golden::check("actor",
                [answer = golden::answer("actor")](const screen& on) { return actor_text(answer, golden::now, on); });
}

TEST_CASE("render_actor: an actor that says nothing, or odd things, is shown all the same") {
  for (const auto& odd : {json::object(), json{{"id", 3}, {"described", nullptr}}, json{{"described", 7}},
                          json{{"kind", 1}, {"described", {{"x", {{"y", json::array()}}}}}}})
    CHECK(actor_text(odd, golden::now).find("(actor ") != std::string::npos);
}
