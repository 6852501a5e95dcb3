#include "actors/feed_session.hpp"

#include <nlohmann/json.hpp>

namespace ranvier {
namespace {

/// Calls back exactly once, with a failure if nobody answered (the actor died with the step in its mailbox).
class one_answer {
public:
  explicit one_answer(std::function<void(feed_outcome)> then)
      : then_(std::move(then)) {}
  ~one_answer() {
    feed_outcome lost;
    lost.ok = false;
    lost.problem = "no answer came";
    give(std::move(lost));
  }
  one_answer(const one_answer&) = delete;
  one_answer& operator=(const one_answer&) = delete;
  void give(feed_outcome outcome) {
    if (auto then = std::exchange(then_, {})) then(std::move(outcome));
  }

private:
  std::function<void(feed_outcome)> then_;
};

} // namespace

void feed_tally::add(const feed_outcome& outcome) {
  accepted_ += outcome.accepted;
  skipped_ += outcome.skipped;
  head_ = std::max(head_, outcome.head);
  rejected_total_ += outcome.rejected.size();
  for (const auto& one : outcome.rejected)
    if (rejected_.size() < max_listed) rejected_.push_back(one);
}

std::string feed_tally::answer() const {
  auto list = nlohmann::json::array();
  for (const auto& one : rejected_)
    list.push_back({{"line", one.line}, {"errcode", one.errcode}, {"error", one.error}});
  const nlohmann::json out = {{"accepted", accepted_},
                              {"skipped", skipped_},
                              {"position", head_},
                              {"rejected", std::move(list)},
                              {"rejected_total", rejected_total_}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::size_t line_reader::take(std::string_view line, std::vector<feed_line>& lines) {
  ++number_;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return 0;
  lines.push_back(parse_feed_line(line, number_, server_name_));
  return line.size();
}

std::size_t line_reader::add(std::string_view piece, std::vector<feed_line>& lines) {
  std::size_t bytes = 0;
  for (;;) {
    const auto at = piece.find('\n');
    if (at == std::string_view::npos) break;
    const auto line = piece.substr(0, at);
    if (too_long_) {
      too_long_ = false; // it was rejected when it became too long
    } else if (rest_.empty()) {
      bytes += take(line, lines);
    } else {
      rest_ += line;
      bytes += take(rest_, lines);
    }
    rest_.clear();
    piece.remove_prefix(at + 1);
  }
  if (too_long_) return bytes;
  rest_ += piece;
  if (rest_.size() <= max_line_bytes) return bytes;
  too_long_ = true;
  rest_ = {};
  lines.push_back(
      {++number_,
       {},
       0,
       record_problem{"M_TOO_LARGE", "a line may have at most " + std::to_string(max_line_bytes) + " bytes"}});
  return bytes;
}

std::size_t line_reader::end(std::vector<feed_line>& lines) {
  if (rest_.empty() || too_long_) return 0;
  const auto last = std::exchange(rest_, {});
  return take(last, lines);
}

void feed_session::data(std::string_view piece, std::function<void()> resume) {
  bytes_ += reader_.add(piece, lines_);
  resume_ = std::move(resume);
  step();
}

void feed_session::end() {
  bytes_ += reader_.end(lines_);
  ended_ = true;
  step();
}

void feed_session::aborted() {
  resume_ = {};
  lines_.clear();
  exchange_.reset(); // what was sent may be applied; the host sends it all again
}

/// What may happen now: a batch goes to the ledger, the client goes on, or all is done.
void feed_session::step() {
  if (!exchange_) return;
  if (!in_flight_ && (full() || (ended_ && (!lines_.empty() || !asked_)))) send();
  if (resume_ && !full()) std::exchange(resume_, {})();
  if (!ended_ || in_flight_ || !lines_.empty()) return;
  exchange_->respond(200, tally_.answer());
  exchange_.reset();
}

void feed_session::send() {
  in_flight_ = asked_ = true;
  bytes_ = 0;
  feed_step next{make_local(feed_batch{std::exchange(lines_, {})}), {}};
  // The session is called back on the connection's strand, where the sink is called too.
  auto once = std::make_shared<one_answer>([self = shared_from_this(), exchange = exchange_](feed_outcome outcome) {
    exchange->post([self, outcome = std::move(outcome)] { self->answered(outcome); });
  });
  next.answer = [once](const feed_outcome& outcome) { once->give(outcome); };
  caf::anon_send(actor_, make_local(std::move(next)));
}

void feed_session::answered(const feed_outcome& outcome) {
  in_flight_ = false;
  if (!exchange_) return;
  if (outcome.ok) {
    tally_.add(outcome);
    return step();
  }
  exchange_->respond_error(503, "M_UNKNOWN",
                           "the records could not be stored (" + outcome.problem + "); send them all again",
                           {{"Retry-After", "5"}});
  aborted();
}

} // namespace ranvier
