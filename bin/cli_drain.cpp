#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/table.hpp"
#include "bin/words.hpp"

#include <iostream>

namespace ranvier {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;
constexpr std::int64_t default_within_ms = 60'000;
constexpr auto last_answers = 15s; ///< beyond the time given: for what is in flight at its end

std::string waits_text(const json& counts) {
  return joined({counted(number_in(counts, "pdus"), "pdu", "pdus"),
                 counted(number_in(counts, "device_lists"), "device update", "device updates"),
                 std::to_string(number_in(counts, "to_device")) + " to-device"},
                ", ");
}

} // namespace

int drain_engine(const admin_client& engine, const std::string& within, const std::string& output) {
  const auto ms = within.empty() ? default_within_ms : parse_duration(within);
  if (ms < 0) throw cli_failure(exit_usage, "--within must be a duration like 60s, it is " + within);
  const auto answer = engine.call("POST", "/drain", {{"within_ms", ms}}, std::chrono::milliseconds(ms) + last_answers);
  if (output == "json") std::cout << dumped(answer, 2) << '\n';
  if (answer.value("drained", false)) {
    std::cerr << "drained after " << span_text(number_in(answer, "took_ms"))
              << ": whoever can be reached has all. The engine begins nothing new until it is restarted.\n";
  } else {
    std::cerr << "NOT drained within " << span_text(ms) << ": " << waits_text(object_in(answer, "left"))
              << " still wait for servers that can be reached, "
              << counted(number_in(answer, "in_flight"), "transaction is", "transactions are")
              << " in flight. The engine begins nothing new; what is left goes after its restart.\n";
    for (const auto& one : answer.value("destinations", json::array()))
      std::cerr << "  " << printable(text_in(one, "destination")) << ": " << waits_text(one) << '\n';
  }
  const auto& waiting = object_in(answer, "waiting");
  std::cerr << "in the store for all servers: " << waits_text(waiting) << '\n';
  return answer.value("drained", false) ? exit_ok : exit_no;
}

} // namespace ranvier
