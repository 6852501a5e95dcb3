#include "actors/net/dials.hpp"

#include <algorithm>

namespace ranvier {

bool dials::enter(const std::string& destination, ticket id) {
  auto [it, first] = all_.try_emplace(destination);
  auto& d = it->second;
  if (first) {
    d.by = id;
    return true;
  }
  d.waiting.push_back(id);
  ++waiting_;
  return false;
}

void dials::note(const std::string& destination, dial& d) {
  if (!d.noted) changed_.push_back(destination);
  d.noted = true;
}

void dials::connected(const std::string& destination, ticket id) {
  auto it = all_.find(destination);
  if (it == all_.end() || it->second.by != id) return;
  it->second.made = true;
  note(destination, it->second);
}

void dials::leave(const std::string& destination, ticket id) {
  auto it = all_.find(destination);
  if (it == all_.end()) return;
  auto& d = it->second;
  if (d.by == id) {
    d.by = 0;
    return note(destination, d);
  }
  auto at = std::find(d.waiting.begin(), d.waiting.end(), id);
  if (at == d.waiting.end()) return;
  d.waiting.erase(at);
  --waiting_;
}

std::vector<dials::ticket> dials::waiting_for(const std::string& destination, ticket id) const {
  auto it = all_.find(destination);
  if (it == all_.end() || it->second.by != id || it->second.made) return {};
  return {it->second.waiting.begin(), it->second.waiting.end()};
}

std::vector<dials::ticket> dials::released() {
  std::vector<ticket> out;
  for (const auto& name : changed_) {
    auto it = all_.find(name);
    if (it == all_.end()) continue;
    auto& d = it->second;
    d.noted = false;
    if (d.made || d.waiting.empty()) {
      out.insert(out.end(), d.waiting.begin(), d.waiting.end());
      waiting_ -= d.waiting.size();
      all_.erase(it);
      continue;
    }
    if (d.by != 0) continue;
    d.by = d.waiting.front();
    d.waiting.pop_front();
    --waiting_;
    out.push_back(d.by);
  }
  changed_.clear();
  return out;
}

std::vector<dials::ticket> dials::all_waiting() const {
  std::vector<ticket> out;
  for (const auto& [name, d] : all_)
    out.insert(out.end(), d.waiting.begin(), d.waiting.end());
  return out;
}

} // namespace ranvier
