#pragma once
#include "messages/gate_row.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace ranvier {

/// Finds the one item because of which a server refuses whole transactions (DESIGN section 6, "Poison"). Pure; the
/// destination actor owns one, asks it how much the next transaction may carry, and tells it how each one ended.
///
/// A transaction is suspected when the server refuses its content (content_refused), or when the same bytes got three
/// 5xx and an empty transaction then passed. Suspects go again in parts, the oldest half first; a part that passes
/// clears its items, a part that is refused is split, and an item that is refused alone is set aside. If nothing passed
/// since the last one was, it is the server that refuses everything: then the gate closes instead.
class poison {
public:
  static constexpr std::size_t no_bound = std::numeric_limits<std::size_t>::max();
  static constexpr int patience = 3; ///< 5xx for the same bytes before an empty transaction is tried

  /// `nothing_passed`: an item of this server was set aside and nothing passed since.
  explicit poison(bool nothing_passed = false)
      : nothing_passed_(nothing_passed) {}

  /// How many items the next transaction may carry, and how many bytes (413 makes these fewer).
  std::size_t most_items() const { return limit_; }
  std::size_t most_bytes() const { return most_bytes_; }
  /// The next transaction is to be an empty one: does the server live at all?
  bool wants_empty() const { return asking_; }
  bool searching() const { return suspects_ > 0; }

  enum class verdict : std::uint8_t {
    judge,      ///< a failure of the server, for the gate; the same bytes go again
    in_parts,   ///< the server lives: what was in it goes again, in smaller transactions
    set_aside,  ///< the server lives: the one item in it goes to the quarantine
    refuses_all ///< the server lives, but takes nothing: the gate closes as content_refused
  };
  /// A transaction with this id and so many items and bytes failed.
  verdict refused(const failure& why, const std::string& id, std::size_t items, std::size_t bytes);
  /// A transaction with so many items was taken.
  void passed(std::size_t items);

private:
  verdict split(std::size_t items);
  verdict alone();
  void look_within(std::size_t items);
  void cleared(std::size_t items);

  std::size_t limit_ = no_bound, most_bytes_ = no_bound;
  std::size_t suspects_ = 0;       ///< items that are still to be cleared or found; 0: none
  std::size_t refused_within_ = 0; ///< one of the first so many of them is refused; 0: not known
  std::size_t asked_about_ = 0;    ///< how many items the transaction had that got the 5xx
  bool lives_ = false;             ///< an empty transaction passed: one 5xx is enough now
  bool asking_ = false;
  bool nothing_passed_;
  std::string failing_id_; ///< of the transaction that gets 5xx
  int failures_ = 0;       ///< so many of them
};

} // namespace ranvier
