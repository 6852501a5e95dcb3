#pragma once
#include "actors/ledger.hpp"
#include "actors/reader.hpp"
#include "storage/identity.hpp"
#include "tests/simulation/virtual_time.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <unistd.h>

namespace ranvier {

/// A ledger and a reader on the test's own scheduler, over a real file in a folder that goes with the test.
class ledger_bench {
public:
  explicit ledger_bench(std::int64_t stream_bytes = 1'000'000)
      : asker(time_.system, true) {
    static int number = 0;
    auto base = std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                    : std::filesystem::temp_directory_path();
    folder_ = base / ("ranvier-ledger-" + std::to_string(::getpid()) + "-" + std::to_string(++number));
    std::filesystem::create_directories(folder_);
    path = (folder_ / "db").string();
    storage::prepare(path, {"us.test", "ed25519:a", "KEY"}, false, "instance-1");
    ledger_settings writing;
    writing.path = path;
    writing.wall_ms = [this] { return now_ms; };
    writing.inbox = inbox;
    writing.stream_bytes = stream_bytes;
    writing.consumers = {"host", "index"};
    writing.on_health = [this](const std::string& problem) { health.push_back(problem); };
    writing.on_stream = [this] { ++stream_moves; };
    ledger = spawn_ledger(time_.system, writing, false);
    reader = spawn_reader(time_.system, {path, writing.wall_ms, inbox, 50, "reader 1"}, false);
    time_.drain();
  }
  ~ledger_bench() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ledger_bench(const ledger_bench&) = delete;
  ledger_bench& operator=(const ledger_bench&) = delete;

  void stop() {
    for (auto who : {caf::actor_cast<caf::actor>(ledger), caf::actor_cast<caf::actor>(reader)})
      caf::anon_send_exit(who, caf::exit_reason::user_shutdown);
    time_.drain();
  }
  void wait(std::int64_t ms) { time_.advance_to(time_.now_ms() + ms); }

  /// Asks, lets everything run, gives the answer; the test fails if an error comes instead.
  template <class Answer, class Actor, class Question> Answer ask(const Actor& who, Question question) {
    auto pending = asker->request(who, caf::infinite, std::move(question));
    time_.drain();
    Answer got{};
    pending.receive([&](const Answer& answer) { got = answer; },
                    [&](const caf::error& e) {
                      auto sentence = "an error came: " + to_string(e);
                      FAIL(sentence);
                    });
    return got;
  }
  /// The same for messages that stay in the process.
  template <class Answer, class Actor, class Question> Answer local_ask(const Actor& who, Question question) {
    return *ask<local<Answer>>(who, make_local(std::move(question)));
  }
  done told(auto question) { return ask<done>(ledger, make_local(std::move(question))); }
  feed_outcome feed(std::vector<feed_line> lines) {
    return local_ask<feed_outcome>(ledger, feed_batch{std::move(lines)});
  }
  destination_row row(const std::string& name) {
    auto got = local_ask<loaded_destination>(reader, load_destination{name});
    CHECK(got.known);
    return got.row;
  }
  void drain() { time_.drain(); }

  static feed_line line(record what, std::uint64_t number = 1) {
    feed_line out;
    out.number = number;
    out.what = std::move(what);
    return out;
  }
  static feed_line member(const std::string& user, const std::string& membership = "join") {
    return line(membership_record{"!r:us.test", user, membership, "", ""});
  }
  static feed_line event(const std::string& id) {
    pdu_record what;
    what.room_id = "!r:us.test";
    what.event_id = id;
    what.event = "{}";
    what.type = "m.room.message";
    what.sender = "@a:us.test";
    return line(std::move(what));
  }

private:
  std::filesystem::path folder_;
  sim::virtual_time time_;

public:
  std::int64_t now_ms = 1'790'000'000'000;
  std::string path;
  std::vector<std::string> health;
  int stream_moves = 0; ///< how often whoever reads the stream was woken
  std::shared_ptr<storage::ephemeral_inbox> inbox = std::make_shared<storage::ephemeral_inbox>();
  ledger_actor ledger;
  reader_actor reader;
  caf::scoped_actor asker;
  caf::actor_system& system() { return time_.system; }
};

} // namespace ranvier
