#pragma once
#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace ranvier {

/// What every actor tells of itself (API section 5, GET /actors): made in its constructor, counted in its handlers, put
/// into JSON by `view`. Reads the mailbox only of its own actor and only inside a handler (LIBRARIES section 0, 3).
class actor_facts {
public:
  actor_facts(caf::scheduled_actor* self, std::string kind, std::string name = "", std::string parent = "engine",
              std::int64_t started_ms = 0, int restarts = 0)
      : self_(self)
      , kind_(std::move(kind))
      , name_(name.empty() ? kind_ : std::move(name))
      , parent_(std::move(parent))
      , started_ms_(started_ms)
      , restarts_(restarts) {}

  void count() { ++handled_; }
  std::uint64_t handled() const { return handled_; }

  nlohmann::json view(const std::string& state, const std::string& busy_with) const {
    return {{"id", self_->id()},
            {"kind", kind_},
            {"name", name_},
            {"parent", parent_},
            {"state", state},
            {"mailbox", self_->mailbox().size()},
            {"handled", handled_},
            {"restarts", restarts_},
            {"started_ms", started_ms_},
            {"busy_with", busy_with.empty() ? nlohmann::json() : nlohmann::json(busy_with)}};
  }

private:
  caf::scheduled_actor* self_;
  std::string kind_, name_, parent_;
  std::int64_t started_ms_;
  int restarts_;
  std::uint64_t handled_ = 0;
};

} // namespace ranvier
