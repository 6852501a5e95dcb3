#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

TEST_CASE("render_why: golden files") {
  for (const std::string name :
       {"why-closed", "why-held", "why-open", "why-event", "why-event-gone", "why-ours", "why-stale", "why-room"})
    golden::check(name,
                  [answer = golden::answer(name)](const screen& on) { return why_text(answer, golden::now, on); });
}

TEST_CASE("render_why: an answer of another version is no reason to fail") {
  for (const auto& odd : {nlohmann::json::object(), nlohmann::json{{"kind", "event"}}, nlohmann::json{{"kind", "user"}},
                          nlohmann::json{{"kind", "room"}, {"servers", 7}}, nlohmann::json{{"kind", 1}}})
    CHECK(!why_text(odd, golden::now).empty());
}
