#include "tests/simulation/run.hpp"

#include <nlohmann/json.hpp>

// Device lists after a run (DESIGN section 7): what anybody believes of a list is what its owner says.

namespace ranvier::sim {

namespace {

std::string in_words(const device_texts& devices) {
  std::string out;
  for (const auto& [device, text] : devices)
    out += (out.empty() ? "" : " ") + device + "=" + text;
  return "[" + out + "]";
}

device_texts texts_of(const known_keys_of_user& known) {
  device_texts out;
  for (const auto& [device, json] : known.devices) {
    const auto keys = nlohmann::json::parse(json);
    const auto name = keys.value("unsigned", nlohmann::json::object()).value("device_display_name", std::string());
    out[device] = text_of_device(keys, device, name);
  }
  return out;
}

} // namespace

/// Whoever shares a room with a user of ours has its list as the host fed it.
void run::check_our_lists() {
  auto& m = now_model();
  for (const auto& [server, user] : m.sharing()) {
    auto& p = outside_.peers.at(server);
    const auto& list = p.lists[user];
    // Nobody is told merely because its own user came into a room: it asks when somebody wants to know.
    if (!list.held && !list.stale && m.told().count({server, user}) == 0) continue;
    ++tally_.lists_compared;
    const bool forgotten = !replaced_ms_.empty() && m.devices(user).empty(); // nobody is left to tell of
    if (list.stale || (list.devices != m.devices(user) && !forgotten))
      outside_.breach(server + " believes that the devices of " + user + " are " + in_words(list.devices) +
                          (list.stale ? " (and knows better)" : "") + ", they are " + in_words(m.devices(user)),
                      server);
  }
}

/// What we hold of their users is what they say.
void run::check_their_lists() {
  for (const auto& one : life_->stale())
    outside_.breach("the list of " + one.user + " is still stale: " + one.cause + ", " + one.problem, one.server);
  for (auto& [server, p] : outside_.peers)
    for (const auto& [user, book] : p.books) {
      const auto known = life_->known_of(user);
      if (known.state != list_state::fresh) continue;
      ++tally_.lists_compared;
      if (texts_of(known) != book.devices)
        outside_.breach("we believe that the devices of " + user + " are " + in_words(texts_of(known)) + ", they are " +
                            in_words(book.devices),
                        server);
    }
}

/// A whole list is fetched when somebody begins to share a room, or when something was lost on the way: not after a
/// restart or an outage.
void run::check_fetches() {
  std::size_t pairs = 0, users = 0;
  for (const auto& [name, p] : outside_.peers) {
    tally_.their_fetches += p.lists_fetched;
    tally_.our_fetches += p.lists_given;
    pairs += p.lists.size();
    users += p.books.size();
  }
  std::size_t begun = 0;
  for (const auto& m : models_)
    begun += m.sharings_begun();
  const auto theirs = begun + replaced_ms_.size() * pairs;
  tally_.most_their_fetches = theirs;
  if (tally_.their_fetches > theirs)
    outside_.breach("peers fetched " + std::to_string(tally_.their_fetches) + " of our lists, at most " +
                    std::to_string(theirs) + " had a reason");
  const auto ours = begun + 2 * gaps_ + replaced_ms_.size() * users;
  tally_.most_our_fetches = ours;
  if (tally_.our_fetches > ours)
    outside_.breach("we fetched " + std::to_string(tally_.our_fetches) + " lists, at most " + std::to_string(ours) +
                    " had a reason");
}

} // namespace ranvier::sim
