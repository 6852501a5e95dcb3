// GET /events and /trace: what happens, live, as server-sent events.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "actors/happenings.hpp"
#include "messages/ids.hpp"

namespace ranvier {
namespace {

using namespace std::chrono_literals;
using namespace admin;
constexpr auto piece_within = 500ms;
constexpr int quiet_pieces = 4; ///< after so many without news a comment shows that we are there

/// What one reader of the stream has seen.
struct reading {
  explicit reading(bool details) {
    if (details) steps.emplace(happenings::of_process());
  }
  std::uint64_t number = 0;
  std::string destination;
  bool follow = true, greeted = false;
  int quiet = 0;
  std::optional<happenings::trace> steps;
};

} // namespace

/// `last`: how many of those that are kept come first (default: none for a trace, 100 else). `follow=false`: it ends
/// after these.
admin_answer admin_desk::events(const call& in, const std::string& destination) {
  const auto given = in.parameter("last"), follow = in.parameter("follow"), after = in.parameter("after");
  const auto last = given.empty() ? std::optional<long long>(destination.empty() ? 100 : 0) : parse_integer(given);
  const auto number = after.empty() ? std::optional<long long>(0) : parse_integer(after);
  if (!last || *last < 0) return refuse(400, "M_INVALID_PARAM", "'last' must be a number of events");
  if (!number || *number < 0) return refuse(400, "M_INVALID_PARAM", "'after' must be the number of an event");
  if (!follow.empty() && follow != "true" && follow != "false")
    return refuse(400, "M_INVALID_PARAM", "'follow' must be true or false");
  auto state = std::make_shared<reading>(!destination.empty());
  state->destination = destination;
  state->follow = follow != "false";
  state->number = after.empty() ? happenings::of_process().before_last(std::size_t(*last)) : std::uint64_t(*number);
  admin_answer out;
  out.content_type = "text/event-stream";
  out.pieces = [state]() -> std::optional<std::string> {
    std::string piece = std::exchange(state->greeted, true) ? "" : ":\n\n";
    const auto news = happenings::of_process().after(state->number, state->destination, state->steps.has_value(),
                                                     piece.empty() && state->follow ? piece_within : 0ms);
    for (const auto& one : news)
      piece += "id: " + std::to_string(one->number) + "\nevent: " + one->slug + "\ndata: " + one->json() + "\n\n";
    if (!piece.empty()) state->quiet = 0;
    else if (!state->follow) return {};
    else if (++state->quiet % quiet_pieces == 0) piece = ":\n\n";
    return piece;
  };
  return out;
}

} // namespace ranvier
