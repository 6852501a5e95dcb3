#pragma once
#include "actors/discovery.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// What is known of a host's .well-known file.
struct known_file {
  well_known_result what;
  int refusals = 0;                 ///< in a row: how often there was no file
  std::string last_good;            ///< the delegation that was valid last
  std::int64_t last_good_until = 0; ///< its ceiling
};

/// Takes what a walk found into `f`; `f.what` is what is to be believed then: a delegation that was valid is used on
/// while its file can't be had for a passing reason, up to its ceiling (D17, D18). For how long, in ms; 0: it isn't to
/// be remembered, because DNS couldn't say anything (B112). How long no file is believed doubles with each refusal.
std::int64_t learn_file(known_file& f, const well_known_result& found, std::int64_t now, std::int64_t first_refusal_ms,
                        std::int64_t most_refusal_ms);

/// The same as it is kept over a restart (B110): both moments as wall time.
struct kept_file {
  std::string host;
  known_file file;
  std::int64_t until_ms = 0;
};

/// As JSON text.
std::string write_facts(const std::vector<kept_file>& files);
/// What can't be read is left out: it is looked up anew. Moments beyond `latest_ms` are pulled back to it, so that a
/// wall clock that was set back keeps nothing for ever.
std::vector<kept_file> read_facts(const std::string& text, std::int64_t latest_ms);

} // namespace ranvier
