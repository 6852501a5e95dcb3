#include "bin/listing.hpp"

#include "bin/cli.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

namespace ranvier {

using nlohmann::json;

namespace {

std::vector<const column*> columns_for(const std::string& output, const std::vector<column>& all) {
  std::vector<const column*> out;
  if (!output.starts_with("custom=")) {
    for (const auto& each : all)
      if (!each.wide || output == "wide") out.push_back(&each);
    return out;
  }
  std::istringstream names(output.substr(7));
  for (std::string name; std::getline(names, name, ',');) {
    const column* found = nullptr;
    for (const auto& each : all)
      if (each.key() == name) found = &each;
    if (!found) throw cli_failure(exit_usage, "there is no column " + name);
    out.push_back(found);
  }
  if (out.empty()) throw cli_failure(exit_usage, "custom= needs names of columns");
  return out;
}

std::string names_of(const std::vector<column>& columns) {
  std::string out;
  for (const auto& each : columns)
    out += (out.empty() ? "" : ", ") + each.key();
  return out;
}

} // namespace

std::string dumped(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

void print_list(std::vector<json> rows, const std::vector<column>& columns, const listing_options& how,
                const char* member, std::int64_t of) {
  if (!how.sort.empty() && !sort_rows(rows, columns, how.sort))
    throw cli_failure(exit_usage,
                      "--sort takes a column, with - in front for the other way round: " + names_of(columns));
  const auto total = std::max(rows.size(), static_cast<std::size_t>(std::max<std::int64_t>(of, 0)));
  if (how.limit >= 0 && static_cast<std::size_t>(how.limit) < rows.size())
    rows.resize(static_cast<std::size_t>(how.limit));
  if (how.output == "json") {
    std::cout << dumped({{member, rows}, {"total", total}}, 2) << '\n';
  } else if (how.output == "jsonl") {
    for (const auto& row : rows)
      std::cout << dumped(row, -1) << '\n';
  } else {
    const auto on = screen_of(STDOUT_FILENO);
    std::cout << table_text(rows, columns_for(how.output, columns), wall_now_ms(), how.headers, on);
    if (rows.size() < total) std::cerr << rows.size() << " of " << total << "; see --limit\n";
  }
}

void print_answer(const json& answer, const std::string& output,
                  const std::function<std::string(const screen&)>& words) {
  if (output == "json") std::cout << dumped(answer, 2) << '\n';
  else std::cout << words(screen_of(STDOUT_FILENO));
}

std::vector<json> list_of(json answer, const char* member) {
  auto list = answer.find(member);
  if (list == answer.end() || !list->is_array())
    throw cli_failure(exit_fault, "the engine's answer has no " + std::string(member));
  return {std::make_move_iterator(list->begin()), std::make_move_iterator(list->end())};
}

int watched(const listing_options& how, const std::function<int()>& once) {
  if (how.watch_s <= 0) return once();
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  while (std::cout) {
    // The picture is made first, so that a terminal never shows half of one.
    std::ostringstream picture;
    auto* out = std::cout.rdbuf(picture.rdbuf());
    int code = exit_ok;
    try {
      code = once();
    } catch (...) {
      std::cout.rdbuf(out);
      throw;
    }
    std::cout.rdbuf(out);
    if (code != exit_ok) return code;
    std::cout << (terminal ? "\x1b[H\x1b[2J" : "") << picture.str() << std::flush;
    std::this_thread::sleep_for(std::chrono::duration<double>(how.watch_s));
  }
  return exit_ok;
}

} // namespace ranvier
