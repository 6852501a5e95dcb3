#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

TEST_CASE("render_events: a line each, with control characters of others' words taken out") {
  nlohmann::json event{{"number", 7},
                       {"at_ms", 1'799'999'999'123},
                       {"level", "info"},
                       {"event", "destination_closed"},
                       {"destination", "a.test"},
                       {"why", "bad \x1b[31m words"}};
  CHECK(event_text(event) == "07:59:59.123  destination_closed    a.test  why=bad  [31m words\n");
  CHECK(event_text(event, {80, true}).find("\x1b[1ma.test\x1b[0m") != std::string::npos);
  CHECK(!event_text(nlohmann::json::object()).empty());
}

TEST_CASE("render_events: golden files") {
  const auto answer = golden::answer("config");
  golden::check("config", [&](const screen& on) { return config_text_of(answer, true, on); });
}
