#include "bin/commands.hpp"

#include <algorithm>
#include <stdexcept>

namespace ranvier {

namespace {

constexpr const char *look = "Look", *probe = "Probe", *act = "Act", *subjects = "Subjects", *run = "Run",
                     *alone = "Without an engine";

} // namespace

// One row a verb.
const std::vector<command>& commands() {
  static const std::vector<command> all{
      {look, "status", "", "the whole on one screen", {"ranvier status", "ranvier status -o json"}},
      {look,
       "ls",
       "[SELECTOR]",
       "servers with their state, what waits for them, and the last failure",
       {"ranvier ls --state closed --sort -waiting", "ranvier ls '*.example.org' -o custom=destination,waiting"}},
      {look, "show", "NAME", "everything about one server", {"ranvier show matrix.example.org"}},
      {look,
       "why",
       "NAME|EVENT_ID|USER|ROOM",
       "why something isn't there yet",
       {"ranvier why matrix.example.org", "ranvier why '@bob:example.org'"}},
      {look, "shape", "[SELECTOR]", "what waits, by age", {"ranvier shape", "ranvier shape --state closed"}},
      {look, "queue", "NAME", "what waits for a server, item by item", {"ranvier queue matrix.example.org --limit 20"}},
      {look,
       "attempts",
       "NAME",
       "the last requests to a server, and how they ended",
       {"ranvier attempts matrix.example.org -o wide"}},
      {look, "rooms", "NAME", "the rooms shared with a server", {"ranvier rooms matrix.example.org --sort -waiting"}},
      {look, "top", "", "the whole, and those for whom most waits, live", {"ranvier top --watch 5"}},
      {look, "stat", "[SECONDS]", "a line of numbers every few seconds", {"ranvier stat 10 --count 6"}},
      {look,
       "events",
       "",
       "what happened lately; with -f also what happens from now on",
       {"ranvier events -f", "ranvier events --last 20 -o jsonl"}},
      {look, "trace", "NAME", "everything that happens to a server, live", {"ranvier trace matrix.example.org"}},
      {probe,
       "resolve",
       "NAME",
       "how a server is found, step by step",
       {"ranvier resolve matrix.example.org", "ranvier resolve matrix.example.org --no-cache"}},
      {probe,
       "probe",
       "NAME",
       "well-known, DNS, TLS, keys and version of a server, as seen from here",
       {"ranvier probe matrix.example.org"}},
      {act, "wake", "SELECTOR", "try servers now", {"ranvier wake matrix.example.org", "ranvier wake --state closed"}},
      {act,
       "hold",
       "SELECTOR --reason R",
       "send servers nothing until they are released; nothing is lost",
       {"ranvier hold matrix.example.org --reason 'maintenance, ticket 12' --for 2h"}},
      {act, "release", "SELECTOR", "end a hold", {"ranvier release matrix.example.org"}},
      {act, "reset", "SELECTOR", "forget the failures of servers", {"ranvier reset matrix.example.org"}},
      {act,
       "drop",
       "SELECTOR --reason R",
       "let go what waits for servers: it is never sent",
       {"ranvier drop gone.example.org --reason 'moved, ticket 12' --dry-run",
        "ranvier drop '*.example.org' --reason 'ticket 12' --older 7d --yes"}},
      {subjects, "stale-users", "", "users whose device lists must be fetched", {"ranvier stale-users --sort since"}},
      {subjects, "resync", "USER", "fetch a user's device list now", {"ranvier resync '@bob:example.org'"}},
      {subjects,
       "partial-joins",
       "",
       "rooms that are joined without their full state",
       {"ranvier partial-joins -o wide"}},
      {subjects,
       "partial-join",
       "ROOM retry|abandon",
       "ask all servers for its state now, or give the join up",
       {"ranvier partial-join '!room:example.org' retry",
        "ranvier partial-join '!room:example.org' abandon --reason 'room is gone' --dry-run"}},
      {subjects,
       "quarantine",
       "[retry|drop ID]",
       "items that a server refused and that were set aside",
       {"ranvier quarantine --sort -since", "ranvier quarantine retry 7",
        "ranvier quarantine drop 7 --reason 'ticket 12' --yes"}},
      {run, "actors", "", "every running actor", {"ranvier actors --sort -mailbox --limit 10"}},
      {run, "restart-actor", "ID", "end an actor and make it anew from the store", {"ranvier restart-actor 17"}},
      {run,
       "drain",
       "",
       "before a stop: take nothing new, deliver what can be, then begin nothing",
       {"ranvier drain --within 2m"}},
      {run,
       "report",
       "FILE",
       "what those who help need, in a new file, without secrets",
       {"ranvier report report.json"}},
      {run, "config show", "", "the configuration in force, key by key", {"ranvier config show --origin"}},
      {run, "audit", "", "what operators changed, with who and why, newest first", {"ranvier audit --limit 20"}},
      {alone, "serve", "", "run the engine", {"ranvier serve --config /etc/ranvier/ranvier.toml"}},
      {alone,
       "check-config",
       "",
       "say whether a configuration can be used",
       {"ranvier check-config --config /etc/ranvier/ranvier.toml"}},
      {alone, "generate-key", "", "make a signing key", {"ranvier generate-key --out signing.key"}},
      {alone, "demo", "", "outage, catch-up and recovery on loopback, in under a minute", {"ranvier demo"}},
      {alone,
       "sink",
       "--name NAME",
       "play a homeserver on loopback that takes transactions",
       {"ranvier sink --name far.test --listen 127.0.0.1:18448 --fail 503:10"}},
      {alone,
       "completion",
       "bash|zsh|fish",
       "print the completion of a shell",
       {"ranvier completion bash > /etc/bash_completion.d/ranvier", "ranvier completion fish | source"}},
      {alone, "version", "", "name and version", {"ranvier version -o json"}},
  };
  return all;
}

const command& command_of(const std::string& verb) {
  const auto& all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const command& one) { return one.verb == verb; });
  if (found == all.end()) throw std::logic_error("the verb " + verb + " isn't in the table of bin/commands.cpp");
  return *found;
}

} // namespace ranvier
