#pragma once
#include "storage/identity.hpp"
#include "storage/owed.hpp"
#include "storage/room_store.hpp"
#include "storage/writer.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace ranvier::storage {

/// A folder that goes with its test.
class temporary_folder {
public:
  temporary_folder() {
    static int number = 0;
    // In memory if there is such a place: these tests commit thousands of times, and a disk's flushes would be most of
    // it.
    auto base = std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                    : std::filesystem::temp_directory_path();
    path_ = base / ("ranvier-unit-" + std::to_string(::getpid()) + "-" + std::to_string(++number));
    std::filesystem::create_directories(path_);
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

inline const identity us{"us.test", "ed25519:a", "KEY"};

inline feed_line line_of(record what) {
  feed_line line;
  line.number = 1;
  line.what = std::move(what);
  return line;
}
inline feed_line member_line(std::string room, std::string user, std::string membership, std::string event_id = "") {
  return line_of(membership_record{std::move(room), std::move(user), std::move(membership), std::move(event_id), ""});
}
inline pdu_record event_of(std::string room, std::string event_id) {
  pdu_record event;
  event.room_id = std::move(room);
  event.event_id = std::move(event_id);
  event.type = "m.room.message";
  event.sender = "@a:us.test";
  event.event = R"({"event":")" + event.event_id + "\"}";
  return event;
}
inline pdu_record member_event(std::string room, std::string event_id, std::string user, std::string membership) {
  auto event = event_of(std::move(room), std::move(event_id));
  event.type = "m.room.member";
  event.state_key = std::move(user);
  event.membership = std::move(membership);
  return event;
}
inline to_device_record message_of(std::string message_id, std::vector<std::string> users) {
  to_device_record message;
  message.sender = "@a:us.test";
  message.type = "m.test";
  message.message_id = std::move(message_id);
  for (auto& user : users)
    message.messages[user]["*"] = "{}";
  return message;
}

/// A real database in a folder of its own, with the writer over it and a reader's connection beside it.
class store_bench {
public:
  explicit store_bench(std::int64_t newest_kept = 50, compaction::settings how = {})
      : how_(how) {
    how_.newest_kept = newest_kept;
    open();
  }

  /// Closes everything and opens it again, as a restart does.
  void reopen() {
    reader.reset();
    stores.reset();
    open();
  }
  feed_result feed(std::vector<feed_line> lines) {
    feed_result outcome;
    last = stores->commit(
        {[&](writer& to, std::vector<log_entry>& entries) { outcome = to.feed.apply(lines, now_ms, entries); }});
    REQUIRE(last.problems == std::vector<std::string>{""});
    return outcome;
  }
  feed_result feed(feed_line line) { return feed(std::vector<feed_line>{std::move(line)}); }
  void write(const writer::job& job) {
    last = stores->commit({job});
    REQUIRE(last.problems == std::vector<std::string>{""});
  }
  void acknowledge(const std::string& server, position upto) {
    write([&](writer& to, auto&) {
      to.destinations.acknowledge(to.names.server(server), {upto, upto, upto}, {}, 0, now_ms, now_ms);
    });
  }
  void interval(const std::string& server, bool opens) {
    write([&](writer& to, auto&) {
      auto id = to.names.server(server);
      if (opens) to.destinations.open_interval(id, to.log.head());
      else to.destinations.close_interval(id, to.log.head());
    });
  }
  /// A pass of compaction, of at most so many steps.
  void compact(int steps = 1'000'000) {
    stores->compact.wake();
    do
      write([&](writer& to, auto&) { to.compact_step(now_ms, {to_device_age_ms}); });
    while (--steps > 0 && stores->compact.due());
  }
  std::int64_t let_go(const std::string& server) {
    auto row = destination_store(*reader).find(server);
    return row ? row->let_go : 0;
  }
  position head() const { return stores->log.head(); }
  cursors at(const std::string& server) {
    auto row = destination_store(*reader).find(server);
    return row ? row->at : cursors{};
  }
  owed_page owed(const std::string& server, std::size_t max_pdus = 10'000) {
    return owed_reader(*reader, how_.newest_kept).page(server, at(server), head(), {max_pdus, 1 << 30, 10'000});
  }
  /// Event ids that a server is owed, in order, with blanks between them.
  std::string events(const std::string& server) {
    std::string out;
    for (const auto& entry : owed(server).pdus)
      out += (out.empty() ? "" : " ") + entry.subject;
    return out;
  }
  std::vector<std::string> owed_servers() { return owed_reader(*reader, how_.newest_kept).list("", 1'000'000); }
  std::int64_t rows(const std::string& table) { return query_number("SELECT count(*) FROM " + table); }
  std::int64_t query_number(const std::string& sql) {
    kept_sql_.push_back(std::make_unique<std::string>(sql));
    return reader->integer(*kept_sql_.back()).value_or(-1);
  }

  temporary_folder folder;
  allowed_servers allowed{}; ///< taken up when it is opened again
  std::int64_t to_device_age_ms = 30LL * 86'400'000;
  std::int64_t now_ms = 1'790'000'000'000;
  std::unique_ptr<writer> stores;
  std::unique_ptr<database> reader;
  boot_report boot;
  writer::group_result last;

private:
  void open() {
    boot = prepare(folder.file("db"), us, false, "instance-1");
    stores = std::make_unique<writer>(writer_settings{folder.file("db"), 1'000'000, {"host"}, 10'000, true, how_,
                                                      std::numeric_limits<std::int64_t>::max(), allowed});
    reader = std::make_unique<database>(folder.file("db"), database::mode::read);
  }
  compaction::settings how_;
  std::vector<std::unique_ptr<std::string>> kept_sql_; ///< the statement cache keeps addresses of its texts
};

/// The names that an entry is owed to, with blanks between them.
inline std::string names_of(const log_entry& entry) {
  std::string out;
  for (const auto& name : *entry.servers)
    out += (out.empty() ? "" : " ") + name;
  return out;
}

} // namespace ranvier::storage
