#pragma once
#include "messages/joins.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ranvier {

/// What became of one question to a candidate.
enum class candidate_answer : std::uint8_t {
  ok,           ///< it gave the whole state
  unreachable,  ///< connecting failed, it fell silent, or its gate is closed
  refused,      ///< 4xx
  server_error, ///< 5xx
  invalid       ///< what it gave can't be true
};
std::string_view to_string(candidate_answer answer);

struct join_plan_settings {
  std::int64_t abandon_after_ms = 86'400'000;           ///< [partial_join] abandon_after
  std::function<double()> uniform = [] { return 0.5; }; ///< numbers in [0, 1)
};

/// Whom a partially joined room's state is asked of, and when; and when to give up (DESIGN section 8). Pure; moments
/// are wall clock, ms; the room's actor owns one.
///
/// Each candidate has the verdict of its last answer and a wait of its own: refused and server error 15 s to 10 min,
/// invalid data from 10 min, unreachable a minute to 36 h, each doubled. A live server that failed five times in a row
/// counts as refusing. When everybody refuses and nobody is merely unreachable for `abandon_after`, it is hopeless.
/// Word that a server is reachable again makes it due at once, so long waits strand nobody. While there are many
/// unreachable ones each further look at one waits for its turn: 1.8 s for each of them.
class partial_join_plan {
public:
  static constexpr std::size_t at_a_time = 3;

  /// `progress`: what progress() gave before a restart, or empty.
  partial_join_plan(const std::vector<std::string>& servers, join_plan_settings settings, const std::string& progress);

  void add(const std::vector<std::string>& servers);
  /// Who is to be asked now; they count as being asked. The healthiest first: `preferred` (who helped with the join),
  /// the others, then those that were unreachable. One whose gate is closed answers so without a request, and is that.
  std::vector<std::string> next(std::int64_t now_ms, const std::string& preferred);
  void answered(const std::string& server, candidate_answer answer, const std::string& reason, std::int64_t now_ms);
  /// It can be reached again, or an operator says so (empty: all of them).
  void bring_forward(const std::string& server, std::int64_t now_ms);

  /// When next() will give somebody; nothing while enough are being asked.
  std::optional<std::int64_t> next_due() const;
  /// Everybody refuses, and has for long enough, and was asked once more since a restart: time in which nobody was
  /// asked is no refusal.
  bool hopeless(std::int64_t now_ms) const;
  /// When it becomes hopeless if nothing changes; nothing if somebody is merely unreachable or wasn't asked yet.
  std::optional<std::int64_t> hopeless_at() const;

  bool is_unreachable(const std::string& server) const;
  std::map<std::string, server_verdict> verdicts() const;
  /// Wall clock of each candidate's next turn; 0: being asked.
  std::map<std::string, std::int64_t> turns() const;
  std::string summary() const; ///< "2 servers refuse, 1 unreachable"
  std::string progress() const;

private:
  struct candidate {
    std::optional<candidate_answer> verdict;
    std::string reason;
    int failures = 0; ///< in a row, of the same kind of answer
    std::int64_t next_ms = 0;
    bool asked = false;
    bool answered = false; ///< since this plan was made
  };
  static bool refuses(const candidate& one);
  void judge(std::int64_t now_ms);
  std::int64_t wait_after(const candidate& one);

  join_plan_settings settings_;
  std::map<std::string, candidate> candidates_;
  std::int64_t refused_since_ms_ = 0; ///< everybody refuses since then; 0: not
  std::int64_t slow_turn_ms_ = 0;     ///< no unreachable one is looked at again before
};

} // namespace ranvier
