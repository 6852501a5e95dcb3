#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

// Verbs that show numbers as they change: top, stat.

namespace ranvier {

using nlohmann::json;

int show_top(const admin_client& engine, const listing_options& given) {
  auto how = given;
  if (how.watch_s <= 0 && ::isatty(STDOUT_FILENO)) how.watch_s = 2;
  return watched(how, [&] {
    show_status(engine, "text");
    std::cout << '\n';
    const auto limit = std::to_string(how.limit > 0 ? std::min<std::int64_t>(how.limit, 1000) : 20);
    auto page = engine.get("/destinations?order_by=waiting&dir=desc&limit=" + limit);
    auto rows = list_of(std::move(page), "destinations");
    listing_options table;
    table.output = how.output;
    table.headers = how.headers;
    print_list(std::move(rows), destination_columns(), table, "destinations");
    return exit_ok;
  });
}

int show_stat(const admin_client& engine, double seconds, std::int64_t times, const std::string& output) {
  const auto on = screen_of(STDOUT_FILENO);
  for (std::int64_t line = 0; std::cout && (times <= 0 || line < times); ++line) {
    if (line > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const auto stats = engine.get("/stats");
    if (output == "jsonl" || output == "json") std::cout << dumped(stats, -1) << std::endl;
    else std::cout << stat_text(stats, line % 20 == 0, on) << std::flush;
  }
  return exit_ok;
}

} // namespace ranvier
