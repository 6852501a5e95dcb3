#include "tests/simulation/run.hpp"

#include <doctest/doctest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <sstream>

// What a run says of itself, and what is said when it fails.

namespace ranvier::sim {

namespace {

constexpr std::size_t traced_breaches = 3, longest_line = 120;

std::string when(std::int64_t at_ms) {
  std::ostringstream out;
  out << "day " << at_ms / day - 1 << " " << (at_ms / hour) % 24 << ":" << (at_ms / minute) % 60 << ":"
      << (at_ms / second) % 60 << "." << at_ms % second;
  return out.str();
}

bool names(const world::happening& line, const std::string& event) {
  return !event.empty() && line.what.find(event + " ") != std::string::npos;
}

} // namespace

std::string run::summary() const {
  std::ostringstream out;
  out << "seed " << plan_.seed << ": " << plan_.peers << " servers, " << plan_.length_ms / day << " days, "
      << tally_.records << " records, " << tally_.lives << " lives, " << tally_.owed_events << " events owed, "
      << tally_.delivered << " delivered, " << tally_.let_go << " let go, " << tally_.repeated << " repeated, "
      << tally_.messages << " to-device, " << tally_.transactions << " transactions in " << tally_.attempts
      << " attempts, " << tally_.promises << " returns, " << tally_.lists_compared << " device lists compared, "
      << tally_.their_fetches << " of ours fetched of at most " << tally_.most_their_fetches << " and "
      << tally_.our_fetches << " of theirs of at most " << tally_.most_our_fetches << ", " << tally_.handled
      << " messages handled, slowest " << tally_.slowest_ms << " ms, healed in " << tally_.healing_ms / minute
      << " min";
  if (!tally_.samples.empty()) {
    const auto& last = tally_.samples.back();
    std::size_t window = 0, mailbox = 0, actors = 0;
    for (const auto& s : tally_.samples) {
      window = std::max(window, s.memory.windows);
      mailbox = std::max(mailbox, s.memory.mailboxes);
      actors = std::max(actors, s.memory.destinations);
    }
    out << "; at most " << actors << " destinations in memory, " << window << " items in windows, " << mailbox
        << " in mailboxes; database " << last.database_bytes / 1024 << " KiB";
  }
  return out.str();
}

std::string trace_of(const world& outside, const breach_note& one, std::int64_t until_ms, std::size_t lines) {
  std::vector<const world::happening*> about;
  std::size_t end = 0; // lines up to here come before the breach, or shortly after its event was fed
  for (const auto& line : outside.trace) {
    if (!line.server.empty() && line.server != one.server) continue;
    about.push_back(&line);
    if (line.at_ms <= until_ms || names(line, one.event)) end = about.size();
  }
  std::ostringstream out;
  for (auto i = end > lines ? end - lines : 0; i < end; ++i)
    out << "  " << when(about[i]->at_ms) << "  " << (about[i]->server.empty() ? "(engine)" : about[i]->server) << ": "
        << about[i]->what.substr(0, longest_line)
        << (about[i]->what.size() > longest_line && names(*about[i], one.event) ? " ... " + one.event : "") << "\n";
  return out.str();
}

std::string run::trace_of(const breach_note& one, std::size_t lines) const {
  const auto& m = models_.back();
  const auto until = !one.event.empty() && m.knows(one.event) ? m.fed_ms(one.event) + hour : one.at_ms;
  return sim::trace_of(outside_, one, until, lines);
}

tally simulate(const scenario_plan& plan, config settings) {
  spdlog::set_level(spdlog::level::off);
  CAPTURE(plan.seed);
  run one(plan, settings);
  const auto* watched = std::getenv("RANVIER_TRACE"); // a server's name: everything that happens to it is printed
  if (watched != nullptr) one.trace({watched});
  one.go();
  if (watched != nullptr) MESSAGE(one.trace_of({"", watched, "", one.end_ms()}, ~std::size_t{0}));
  MESSAGE(one.summary());
  for (const auto& breach : one.breaches())
    FAIL_CHECK(breach.sentence);
  if (!one.breaches().empty()) {
    run again(plan, settings); // the same in every step, and this time somebody looks
    std::set<std::string> servers;
    for (std::size_t i = 0; i < std::min(traced_breaches, one.breaches().size()); ++i)
      servers.insert(one.breaches()[i].server);
    again.trace(servers);
    again.go();
    for (std::size_t i = 0; i < std::min(traced_breaches, again.breaches().size()); ++i)
      MESSAGE("seed ", plan.seed, ": ", again.breaches()[i].sentence, "\n", again.trace_of(again.breaches()[i]));
  }
  CHECK(one.result().delivered + one.result().let_go == one.result().owed_events);
  CHECK(one.result().messages > 0);
  CHECK(one.result().lists_compared > 0);
  return one.result();
}

} // namespace ranvier::sim
