#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace ranvier {

/// Who waits for whose first connection. The first request to a server that no connection leads to dials; others that
/// begin meanwhile wait: what is made may carry them all (HTTP/2), and if it can't be made, they needn't try too. Pure.
class dials {
public:
  using ticket = std::uint64_t;

  bool dialling(const std::string& destination) const { return all_.count(destination) > 0; }
  /// True: this one dials. False: it waits, until it stands in `released` or leaves.
  bool enter(const std::string& destination, ticket id);
  /// Whoever dials has a connection. Nothing for all others.
  void connected(const std::string& destination, ticket id);
  /// One that waits, or dials, is over. If nothing came of the dial, the next one in turn dials.
  void leave(const std::string& destination, ticket id);
  /// Those that wait for what this one dials.
  std::vector<ticket> waiting_for(const std::string& destination, ticket id) const;
  /// Those that may go now, once each.
  std::vector<ticket> released();
  std::size_t waiting() const { return waiting_; }
  std::vector<ticket> all_waiting() const;

private:
  struct dial {
    ticket by = 0; ///< 0: nobody any more
    bool made = false, noted = false;
    std::deque<ticket> waiting;
  };
  void note(const std::string& destination, dial& d);

  std::unordered_map<std::string, dial> all_;
  std::vector<std::string> changed_;
  std::size_t waiting_ = 0;
};

} // namespace ranvier
