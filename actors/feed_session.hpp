#pragma once
#include "actors/ingress.hpp"

namespace ranvier {

/// Adds the answers of a feed's batches up and writes the answer of the whole (API 3.1). Pure.
class feed_tally {
public:
  void add(const feed_outcome& outcome);
  std::string answer() const;
  static constexpr std::size_t max_listed = 1000;

private:
  std::uint64_t accepted_ = 0, skipped_ = 0, rejected_total_ = 0;
  position head_ = 0;
  std::vector<rejection> rejected_;
};

/// Cuts a body into lines as its pieces come, whatever their borders. Blank lines are counted and passed over. Pure.
class line_reader {
public:
  explicit line_reader(std::string server_name)
      : server_name_(std::move(server_name)) {}
  /// Adds the lines that are whole now to `lines`; returns their bytes.
  std::size_t add(std::string_view piece, std::vector<feed_line>& lines);
  /// The last line may lack its end.
  std::size_t end(std::vector<feed_line>& lines);
  static constexpr std::size_t max_line_bytes = 32u << 20;

private:
  std::size_t take(std::string_view line, std::vector<feed_line>& lines);
  std::string server_name_, rest_;
  std::uint64_t number_ = 0;
  bool too_long_ = false;
};

/// One POST /feed: parses lines on the HTTP thread and hands them to the ledger in batches, one at a time and in order;
/// while a batch is at the ledger the next one is read, and then the client has to wait. Lives as long as the request.
class feed_session final : public body_sink, public std::enable_shared_from_this<feed_session> {
public:
  feed_session(std::shared_ptr<http_exchange> exchange, ingress_actor actor, std::string server_name)
      : exchange_(std::move(exchange))
      , actor_(std::move(actor))
      , reader_(std::move(server_name)) {}
  void data(std::string_view piece, std::function<void()> resume) override;
  void end() override;
  void aborted() override;

  static constexpr std::size_t batch_lines = 500, batch_bytes = 1u << 20;

private:
  bool full() const { return lines_.size() >= batch_lines || bytes_ >= batch_bytes; }
  void send();
  void answered(const feed_outcome& outcome);
  void step();

  std::shared_ptr<http_exchange> exchange_;
  ingress_actor actor_;
  line_reader reader_;
  feed_tally tally_;
  std::vector<feed_line> lines_;
  std::size_t bytes_ = 0;
  bool in_flight_ = false, ended_ = false, asked_ = false;
  std::function<void()> resume_;
};

} // namespace ranvier
