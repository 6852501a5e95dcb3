#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "bin/selector.hpp"
#include "bin/words.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

// Verbs about the engine itself, and waiting for what it does.

namespace ranvier {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto file_within = 1h; ///< a database of some hundred GB on a slow disk
constexpr std::int64_t default_wait_ms = 600'000;
constexpr auto first_pause = 200ms, longest_pause = 2000ms; ///< between two looks of `wait`

std::string waits_text(const json& d) {
  const auto& pending = object_in(d, "pending");
  const auto& gate = object_in(d, "gate");
  const auto parts = joined({counted(number_in(pending, "pdus"), "pdu", "pdus"),
                             counted(number_in(pending, "device_lists"), "device update", "device updates"),
                             std::to_string(number_in(pending, "to_device")) + " to-device"},
                            ", ");
  const auto next = due_text(number_in(gate, "next_attempt_ms"), wall_now_ms());
  return parts + " wait, its gate is " + text_in(gate, "state") + (next.empty() ? "" : ", next try " + next);
}

bool is_so(const json& d, const std::string& what) {
  if (what == "open") return text_in(object_in(d, "gate"), "state") == "open";
  const auto& pending = object_in(d, "pending");
  return number_in(pending, "pdus") + number_in(pending, "device_lists") + number_in(pending, "to_device") == 0 &&
         object_in(d, "in_flight").empty();
}

std::int64_t span_of(const std::string& option, const std::string& text, std::int64_t fallback) {
  if (text.empty()) return fallback;
  const auto ms = parse_duration(text);
  if (ms <= 0) throw cli_failure(exit_usage, option + " must be a duration like 10m, it is " + text);
  return ms;
}

} // namespace

int list_holds(const admin_client& engine, const listing_options& how) {
  selector_options held;
  held.state = "held";
  print_list(select_destinations(engine, held), hold_columns(), how, "destinations");
  return exit_ok;
}

int wait_for(const admin_client& engine, const std::string& name, const std::string& what, const std::string& within,
             const std::string& output) {
  const auto ms = span_of("--within", within, default_wait_ms);
  const auto began = clock::now();
  const auto end = began + std::chrono::milliseconds(ms);
  auto pause = first_pause;
  while (true) {
    const auto d = engine.get("/destinations/" + percent_encode(name));
    const bool so = is_so(d, what);
    if (so || clock::now() >= end) {
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began).count();
      if (output == "json")
        std::cout << dumped({{"destination", name}, {"for", what}, {"ok", so}, {"took_ms", took}}, 2) << '\n';
      if (!so)
        std::cerr << printable(name) << " isn't " << what << " after " << span_text(ms) << ": " << waits_text(d)
                  << "; see ranvier why " << printable(name) << '\n';
      return so ? exit_ok : exit_no;
    }
    std::this_thread::sleep_for(std::min<clock::duration>(pause, end - clock::now()));
    pause = std::min(pause * 3 / 2, longest_pause);
  }
}

int show_actor(const admin_client& engine, const std::string& id, const std::string& output) {
  const auto answer = engine.get("/actors/" + percent_encode(id));
  print_answer(answer, output, [&](const screen& on) { return actor_text(answer, wall_now_ms(), on); });
  return exit_ok;
}

int change_log_level(const admin_client& engine, const std::string& level, const std::string& lasts,
                     const std::string& output) {
  json body{{"level", level}};
  if (const auto ms = span_of("--for", lasts, 0)) body["for_ms"] = ms;
  const auto answer = engine.post("/log_level", body);
  if (output == "json") std::cout << dumped(answer, 2) << '\n';
  std::cerr << "the log is at " << printable(text_in(answer, "level")) << ", it was at "
            << printable(text_in(answer, "before"))
            << (lasts.empty() ? "; until the next start or reload" : "; for " + lasts + ", then it is as before")
            << '\n';
  return exit_ok;
}

int check_database(const admin_client& engine, const std::string& output) {
  const auto answer = engine.call("POST", "/database/check", json::object(), file_within);
  const bool ok = answer.value("ok", false);
  if (output == "json") {
    std::cout << dumped(answer, 2) << '\n';
    return ok ? exit_ok : exit_no;
  }
  const auto file = printable(text_in(answer, "file"));
  if (ok) std::cerr << file << " is sound\n";
  else std::cerr << file << " is DAMAGED; stop the engine, keep a copy of the file, and go back to a backup:\n";
  for (const auto& one : answer.value("problems", json::array()))
    if (one.is_string()) std::cout << printable(one.get<std::string>()) << '\n';
  return ok ? exit_ok : exit_no;
}

int back_up_database(const admin_client& engine, const std::string& file, const std::string& output) {
  // The engine writes it, and its folder is another one.
  const auto path = std::filesystem::absolute(file).lexically_normal().string();
  const auto answer = engine.call("POST", "/database/backup", {{"file", path}}, file_within);
  if (output == "json") std::cout << dumped(answer, 2) << '\n';
  std::cerr << "the database is in " << printable(text_in(answer, "file")) << ", "
            << bytes_text(number_in(answer, "bytes")) << "; keep signing.key with it\n";
  return exit_ok;
}

} // namespace ranvier
