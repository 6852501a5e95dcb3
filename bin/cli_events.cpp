#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "messages/ids.hpp"

#include <unistd.h>

#include <iostream>

// Verbs that show what happens: events, trace.

namespace ranvier {

using nlohmann::json;

namespace {

int follow(const admin_client& engine, const std::string& path, const std::string& output) {
  const auto on = screen_of(STDOUT_FILENO);
  engine.stream(path, [&](const std::string& data) {
    if (output == "json" || output == "jsonl") {
      std::cout << data << std::endl;
    } else if (const auto one = json::parse(data, nullptr, false); one.is_object()) {
      std::cout << event_text(one, on) << std::flush;
    }
    return bool(std::cout);
  });
  return exit_ok;
}

} // namespace

int show_events(const admin_client& engine, bool and_on, std::int64_t last, const std::string& output) {
  return follow(engine, "/events?last=" + std::to_string(last) + (and_on ? "" : "&follow=false"), output);
}

int trace_destination(const admin_client& engine, const std::string& name, const std::string& output) {
  engine.get("/destinations/" + percent_encode(name)); // a name that nobody knows is said, not waited for
  std::cerr << "what happens to " << name << ", from now on; Ctrl-C ends it\n";
  return follow(engine, "/trace?destination=" + percent_encode(name), output);
}

int show_config(const admin_client& engine, bool origin, const std::string& output) {
  const auto answer = engine.get("/config");
  print_answer(answer, output, [&](const screen& on) { return config_text_of(answer, origin, on); });
  return exit_ok;
}

} // namespace ranvier
