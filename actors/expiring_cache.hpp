#pragma once
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

namespace ranvier {

/// A bounded map from names to facts that grow old: what was used longest ago goes first. Whether a fact is still good
/// is the caller's to judge (old ones may serve when nothing better is to be had). Moments are ms of any one clock.
template <class Value> class expiring_cache {
public:
  struct entry {
    Value value;
    std::uint64_t stamp = 0; ///< the caller's: in which order facts were learnt
    std::int64_t until_ms = 0;
  };
  explicit expiring_cache(std::size_t most)
      : most_(most) {}

  /// Valid until the next put or erase.
  entry* find(const std::string& key) {
    auto it = map_.find(key);
    if (it == map_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second.at);
    return &it->second.what;
  }
  entry* fresh(const std::string& key, std::int64_t now) {
    auto* e = find(key);
    return e && now < e->until_ms ? e : nullptr;
  }
  void put(const std::string& key, Value value, std::uint64_t stamp, std::int64_t until_ms) {
    auto it = map_.find(key);
    if (it == map_.end()) {
      if (map_.size() >= most_) {
        map_.erase(order_.back());
        order_.pop_back();
      }
      order_.push_front(key);
      it = map_.emplace(key, slot{{}, order_.begin()}).first;
    }
    it->second.what = {std::move(value), stamp, until_ms};
  }
  std::size_t size() const { return map_.size(); }
  template <class Visit> void each(Visit visit) const {
    for (auto name = order_.rbegin(); name != order_.rend(); ++name) // what was used longest ago first
      visit(*name, map_.at(*name).what);
  }

private:
  struct slot {
    entry what;
    std::list<std::string>::iterator at;
  };
  std::size_t most_;
  std::list<std::string> order_; ///< newest use first
  std::unordered_map<std::string, slot> map_;
};

} // namespace ranvier
