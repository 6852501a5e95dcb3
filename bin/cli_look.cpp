#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "bin/selector.hpp"
#include "messages/ids.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>

namespace ranvier {

namespace {

using nlohmann::json;

selector selector_of(const selector_options& given) {
  selector out;
  out.state = given.state;
  out.error = given.error;
  if (given.pattern == "-") out.names = names_in(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  else out.pattern = given.pattern;
  if (!given.older.empty()) {
    out.older_ms = parse_duration(given.older);
    if (out.older_ms < 0) throw cli_failure(exit_usage, "--older must be a duration like 1h, it is " + given.older);
  }
  return out;
}

/// All pages of a listing of destinations.
std::vector<json> all_destinations(const admin_client& engine, const std::string& filter) {
  std::vector<json> out;
  std::string from;
  while (true) {
    auto page = engine.get("/destinations?limit=1000" + filter + (from.empty() ? "" : "&from=" + percent_encode(from)));
    auto list = page.find("destinations");
    if (list == page.end() || !list->is_array()) throw cli_failure(exit_fault, "the engine's list has no destinations");
    for (auto& each : *list)
      out.push_back(std::move(each));
    auto next = page.find("next");
    auto before = from;
    from = next == page.end() || next->is_null() ? "" : next->is_string() ? next->get<std::string>() : next->dump();
    if (from.empty() || from == before || list->empty()) return out;
  }
}

} // namespace

admin_address find_engine(const admin_options& options) {
  std::string folder = options.data_dir;
  if (folder.empty() && options.socket.empty()) {
    config_source from{options.config_file, {}};
    const char* given = std::getenv("RANVIER_DATA_DIR");
    // The environment of an engine may hold mistakes that are no business of a verb like status.
    folder = given && *given               ? given
             : options.config_file.empty() ? "./ranvier-data"
                                           : load_config(from, false).data_dir;
  }
  admin_address at;
  at.url = options.url;
  at.socket = options.socket.empty() ? folder + "/admin.sock" : options.socket;
  if (at.url.empty()) return at;
  auto token = options.token_file.empty() ? folder + "/admin_token" : options.token_file;
  at.token = read_text_file(token, exit_usage);
  at.token.erase(at.token.find_last_not_of(" \r\n") + 1);
  return at;
}

std::vector<json> select_destinations(const admin_client& engine, const selector_options& which) {
  auto wanted = selector_of(which);
  std::string filter;
  if (!wanted.state.empty()) filter += "&state=" + percent_encode(wanted.state);
  // A plain name is also a part of itself, so the engine can narrow the list.
  if (wanted.pattern.find_first_of("*?") == std::string::npos && !wanted.pattern.empty())
    filter += "&q=" + percent_encode(wanted.pattern);
  std::vector<json> out;
  for (auto& each : all_destinations(engine, filter))
    if (wanted.matches(each)) out.push_back(std::move(each));
  return out;
}

int show_status(const admin_client& engine, const std::string& output) {
  auto stats = engine.get("/stats");
  if (output == "json") {
    std::cout << dumped(stats, 2) << '\n';
    return exit_ok;
  }
  if (number_in(stats, "partial_joins") > 0)
    stats["partial_join_list"] = engine.get("/partial_joins").value("partial_joins", json::array());
  std::vector<json> closed;
  for (const char* state : {"closed", "probing"})
    if (number_in(object_in(stats, "destinations"), state) > 0)
      for (auto& each : all_destinations(engine, std::string("&state=") + state))
        closed.push_back(std::move(each));
  std::cout << status_text(stats, closed, wall_now_ms(), screen_of(STDOUT_FILENO));
  return exit_ok;
}

/// Of thousands only as many are asked for as are shown, where the engine alone decides which ones these are.
int list_destinations(const admin_client& engine, const selector_options& which, const listing_options& how) {
  const bool first_ones = how.limit > 0 && how.limit <= 1000 && how.sort.empty() && which.pattern.empty() &&
                          which.error.empty() && which.older.empty();
  if (first_ones) {
    auto page = engine.get("/destinations?limit=" + std::to_string(how.limit) +
                           (which.state.empty() ? "" : "&state=" + percent_encode(which.state)));
    const auto total = number_in(page, "total");
    print_list(list_of(std::move(page), "destinations"), destination_columns(), how, "destinations", total);
    return exit_ok;
  }
  print_list(select_destinations(engine, which), destination_columns(), how, "destinations");
  return exit_ok;
}

int show_destination(const admin_client& engine, const std::string& name, const std::string& output) {
  auto destination = engine.get("/destinations/" + percent_encode(name));
  print_answer(destination, output, [&](const screen& on) { return destination_text(destination, wall_now_ms(), on); });
  return exit_ok;
}

int list_stale_users(const admin_client& engine, const listing_options& how) {
  std::vector<json> all;
  for (std::string from = "0"; !from.empty();) {
    auto page = engine.get("/stale_users?limit=1000&from=" + percent_encode(from));
    auto list = page.find("stale_users");
    if (list == page.end() || !list->is_array()) throw cli_failure(exit_fault, "the engine's list has no stale users");
    for (auto& each : *list)
      all.push_back(std::move(each));
    from = text_in(page, "next");
  }
  print_list(std::move(all), stale_user_columns(), how, "stale_users");
  return exit_ok;
}

int list_actors(const admin_client& engine, const listing_options& how) {
  auto answer = engine.get("/actors");
  auto list = answer.find("actors");
  if (list == answer.end() || !list->is_array()) throw cli_failure(exit_fault, "the engine's list has no actors");
  print_list({list->begin(), list->end()}, actor_columns(), how, "actors");
  return exit_ok;
}

} // namespace ranvier
