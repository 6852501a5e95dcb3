#pragma once
#include "actors/gate.hpp"
#include "messages/gate_row.hpp"
#include "messages/protocol/storage.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <string>

namespace ranvier {

/// One request of ours and how it ended, for `attempts`.
struct attempt {
  std::int64_t at_ms = 0, took_ms = 0;
  std::string request, outcome;
  int status = 0;
  std::size_t pdus = 0, edus = 0;
  std::string problem;
  std::vector<std::pair<std::string, std::string>> refused{}; ///< per-PDU errors of a 200 (T5): seen, not resent
  std::string address{};                                      ///< ip:port that was dialled, if it came so far
};

/// The last attempts of a destination, newest last.
class attempt_history {
public:
  void add(attempt one);
  nlohmann::json view() const;

private:
  static constexpr std::size_t most = 20;
  std::deque<attempt> list_;
};

/// What is known of a destination at one moment, from its actor or from its row.
struct destination_facts {
  destination_row row;
  gate_view shown; ///< the gate as the API shows it
  owed_counts owed;
  position head = 0;
  std::size_t ephemeral = 0;
  std::size_t stale_users = 0, resyncing_users = 0;
  bool resident = false, catching_up = false;
  std::string transaction_id; ///< in flight; empty if none
  std::int64_t transaction_since_ms = 0;
  std::size_t transaction_bytes = 0;
};

/// D of API section 5 without `attempts`.
nlohmann::json destination_view(const destination_facts& facts, std::int64_t wall_ms);

} // namespace ranvier
