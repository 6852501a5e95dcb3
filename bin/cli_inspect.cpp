#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "bin/selector.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <iostream>
#include <set>

// Verbs that look into one thing: why, shape, queue, rooms, attempts, audit.

namespace ranvier {

using nlohmann::json;

int show_why(const admin_client& engine, const std::string& subject, const std::string& output) {
  const auto answer = engine.get("/why?subject=" + percent_encode(subject));
  print_answer(answer, output, [&](const screen& on) { return why_text(answer, wall_now_ms(), on); });
  return exit_ok;
}

namespace {

/// The rows of those that a selector chose, and what they sum up to.
json only(json shape, const std::set<std::string>& names) {
  json rows = json::array(), sums = json::array();
  std::int64_t total = 0;
  for (auto& row : shape["destinations"]) {
    if (!names.contains(text_in(row, "destination"))) continue;
    total += number_in(row, "total");
    for (std::size_t i = 0; i < row["counts"].size(); ++i) {
      if (sums.size() <= i) sums.push_back(0);
      sums[i] = sums[i].get<std::int64_t>() + row["counts"][i].get<std::int64_t>();
    }
    rows.push_back(std::move(row));
  }
  shape["rows"] = rows.size();
  shape["destinations"] = std::move(rows);
  shape["total"] = {{"counts", std::move(sums)}, {"total", total}};
  return shape;
}

} // namespace

int show_shape(const admin_client& engine, const selector_options& which, const listing_options& how) {
  const bool plain = which.state.empty() && which.error.empty() && which.older.empty() && which.pattern != "-";
  const auto limit = plain && how.limit > 0 ? how.limit : 1000;
  auto answer = engine.get("/shape?limit=" + std::to_string(limit) +
                           (plain && !which.pattern.empty() ? "&q=" + percent_encode(which.pattern) : ""));
  if (!plain) {
    std::set<std::string> names;
    for (const auto& one : select_destinations(engine, which))
      names.insert(text_in(one, "destination"));
    answer = only(std::move(answer), names);
    auto& rows = answer["destinations"];
    while (how.limit > 0 && std::int64_t(rows.size()) > how.limit)
      rows.erase(rows.size() - 1);
  }
  if (how.output == "jsonl")
    for (const auto& row : answer["destinations"])
      std::cout << dumped(row, -1) << '\n';
  else print_answer(answer, how.output, [&](const screen& on) { return shape_text(answer, on); });
  return exit_ok;
}

int list_queue(const admin_client& engine, const std::string& name, const listing_options& how) {
  const auto limit = how.limit > 0 ? how.limit : 100;
  auto answer = engine.get("/destinations/" + percent_encode(name) +
                           "/queue?limit=" + std::to_string(std::min<std::int64_t>(limit, 1000)));
  const bool more = answer.value("more", false);
  print_list(list_of(std::move(answer), "queue"), queue_columns(), how, "queue");
  if (more && how.output != "json" && how.output != "jsonl") std::cerr << "more waits; see --limit\n";
  return exit_ok;
}

int list_rooms(const admin_client& engine, const std::string& name, const listing_options& how) {
  std::vector<json> all;
  for (std::string from = "";;) {
    auto page = engine.get("/destinations/" + percent_encode(name) + "/rooms?limit=1000" +
                           (from.empty() ? "" : "&from=" + percent_encode(from)));
    from = text_in(page, "next");
    for (auto& room : list_of(std::move(page), "rooms"))
      all.push_back(std::move(room));
    if (from.empty()) break;
  }
  print_list(std::move(all), room_columns(), how, "rooms");
  return exit_ok;
}

int list_attempts(const admin_client& engine, const std::string& name, const listing_options& how) {
  print_list(list_of(engine.get("/destinations/" + percent_encode(name)), "attempts"), attempt_columns(), how,
             "attempts");
  return exit_ok;
}

int list_audit(const admin_client& engine, const listing_options& how) {
  const auto limit = how.limit > 0 ? how.limit : 100;
  print_list(list_of(engine.get("/audit?limit=" + std::to_string(limit)), "audit"), audit_columns(), how, "audit");
  return exit_ok;
}

} // namespace ranvier
