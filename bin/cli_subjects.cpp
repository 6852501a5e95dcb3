#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/confirm.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "bin/words.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <iostream>

// Verbs about what isn't a server: partial joins, and items that a server refused.

namespace ranvier {

namespace {

using nlohmann::json;

std::vector<json> all_joins(const admin_client& engine) {
  return list_of(engine.get("/partial_joins"), "partial_joins");
}

/// All pages.
std::vector<json> all_quarantined(const admin_client& engine) {
  std::vector<json> out;
  for (std::string from;;) {
    auto page = engine.get("/quarantine?limit=1000" + (from.empty() ? "" : "&from=" + percent_encode(from)));
    from = text_in(page, "next");
    for (auto& each : list_of(std::move(page), "quarantine"))
      out.push_back(std::move(each));
    if (from.empty()) return out;
  }
}

} // namespace

int list_partial_joins(const admin_client& engine, const listing_options& how) {
  print_list(all_joins(engine), join_columns(), how, "partial_joins");
  return exit_ok;
}

int change_partial_join(const admin_client& engine, const std::string& room, const std::string& verb,
                        const change_options& how) {
  const bool abandons = verb == "abandon";
  if (abandons && how.reason.empty())
    throw cli_failure(exit_usage, "partial-join ROOM abandon needs --reason: the host is told it");
  if (abandons && (how.dry_run || !how.yes)) {
    const auto all = all_joins(engine);
    const auto one = std::find_if(all.begin(), all.end(), [&](const json& j) { return text_in(j, "room_id") == room; });
    if (one == all.end()) throw cli_failure(exit_no, "no partial join of " + printable(room) + " is under way");
    const auto users = one->value("users", json::array());
    const auto whom = users.is_array() && users.size() == 1 && users[0].is_string()
                          ? printable(users[0].get<std::string>()) + " is"
                          : counted(std::int64_t(users.size()), "local user is", "local users are");
    const auto loss = whom + " taken out of " + printable(room) + ", whose full state isn't fetched any more.";
    if (how.dry_run) {
      std::cerr << "if it is abandoned, " << loss << " Nothing was changed.\n";
      return exit_ok;
    }
    confirm(loss, how.yes);
  }
  json body = json::object();
  if (!how.reason.empty()) body["reason"] = how.reason;
  const auto answer = engine.post("/partial_joins/" + percent_encode(room) + '/' + verb, body);
  if (how.output == "json") std::cout << dumped(answer, 2) << '\n';
  std::cerr << (abandons ? "the partial join of " + printable(room) + " is given up; the host is told so\n"
                         : "all servers are asked now for the state of " + printable(room) + '\n');
  return exit_ok;
}

int list_quarantine(const admin_client& engine, const listing_options& how) {
  print_list(all_quarantined(engine), quarantine_columns(), how, "quarantine");
  return exit_ok;
}

int change_quarantine(const admin_client& engine, const std::string& id, const std::string& verb,
                      const change_options& how) {
  const bool drops = verb == "drop";
  if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos)
    throw cli_failure(exit_usage,
                      "quarantine " + verb + " takes the ID that 'ranvier quarantine' shows, not " + printable(id));
  if (drops && (how.dry_run || !how.yes)) {
    const auto all = all_quarantined(engine);
    const auto one = std::find_if(all.begin(), all.end(),
                                  [&](const json& row) { return std::to_string(number_in(row, "id")) == id; });
    if (one == all.end()) throw cli_failure(exit_no, "there is no item " + id + " in the quarantine");
    const auto loss = "the " + printable(text_in(*one, "kind")) + ' ' + printable(text_in(*one, "item")) +
                      " will never be sent to " + printable(text_in(*one, "destination")) + '.';
    if (how.dry_run) {
      std::cerr << "if it is dropped, " << loss << " Nothing was changed.\n";
      return exit_ok;
    }
    confirm(loss, how.yes);
  }
  json body = json::object();
  if (!how.reason.empty()) body["reason"] = how.reason;
  const auto answer = drops ? engine.call("DELETE", "/quarantine/" + id, body, admin_client::answer_within)
                            : engine.post("/quarantine/" + id + "/retry", body);
  if (how.output == "json") std::cout << dumped(answer, 2) << '\n';
  const auto item = printable(text_in(answer, "item")), server = printable(text_in(answer, "destination"));
  if (drops) std::cerr << item << " is let go: it is never sent to " << server << '\n';
  else if (const auto why = text_in(answer, "waits_because"); !why.empty())
    std::cerr << item << " goes to " << server << " again as soon as it can: " << printable(why) << '\n';
  else std::cerr << item << " goes to " << server << " again\n";
  return exit_ok;
}

} // namespace ranvier
