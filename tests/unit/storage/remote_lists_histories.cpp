// Random histories of one remote user: changes, updates that are lost, doubled and out of order, fetches with all kinds
// of moments between their parts, restarts, gaps in which no room is shared, and a server that is rebuilt.
#include "storage/remote_lists.hpp"

#include "remote_lists_bench.hpp"

#include <algorithm>
#include <deque>
#include <random>

using namespace ranvier;
using namespace ranvier::storage;
using B = lists_bench;

namespace {

using device_map = std::map<std::string, std::string>; ///< device -> keys

/// The user's own server: what is true.
class owner {
public:
  explicit owner(std::mt19937& random)
      : random_(random) {
    devices["D0"] = B::keys_of("D0");
    history[{epoch, stream}] = devices;
  }

  struct sent {
    inbound_device_change what;
    std::pair<int, std::int64_t> at; ///< the moment of the list that it makes true
  };

  sent change() {
    auto device = "D" + std::to_string(random_() % 4);
    auto before = stream;
    stream += 1 + static_cast<std::int64_t>(random_() % 3);
    device_list_edu edu{B::bob, device, stream, {before}, false, "", ""};
    if (first_) edu.prev_ids.clear();
    first_ = false;
    if (devices.contains(device) && random_() % 3 == 0) {
      devices.erase(device);
      edu.deleted = true;
    } else {
      devices[device] = edu.keys = B::keys_of(device, std::to_string(random_() % 3));
    }
    history[{epoch, stream}] = devices;
    return {edu, {epoch, stream}};
  }
  sent new_master() {
    master = "{\"m\":" + std::to_string(++masters_) + "}";
    return {signing_key_edu{B::bob, master, ""}, {epoch, stream}};
  }
  /// From nothing, under the same name: numbers begin again, far below.
  void rebuild() {
    ++epoch;
    stream = 100'000 - 10'000 * epoch;
    devices = {{"N" + std::to_string(epoch), B::keys_of("N")}};
    history[{epoch, stream}] = devices;
    first_ = true;
  }
  save_device_list answer(std::int64_t marks) const {
    auto out = B::fetched(marks, stream, {});
    for (const auto& [device, keys] : devices)
      out.devices.push_back({device, keys, ""});
    out.master_key = master;
    return out;
  }

  int epoch = 0;
  std::int64_t stream = 100'000;
  device_map devices;
  std::string master;
  std::map<std::pair<int, std::int64_t>, device_map> history;

private:
  std::mt19937& random_;
  bool first_ = false;
  int masters_ = 0;
};

class history {
public:
  explicit history(unsigned seed)
      : random_(seed)
      , bob_(random_) {}

  void run() {
    for (int i = 0; i < 120; ++i) {
      step();
      look();
    }
    settle();
  }

private:
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void step() {
    bench_.now_ms += static_cast<std::int64_t>(pick(600'000));
    switch (pick(16)) {
    case 0:
    case 1:
    case 2:
      return send(bob_.change());
    case 3:
      return send(bob_.new_master());
    case 4:
    case 5:
    case 6:
    case 7:
      return deliver(1 + pick(3));
    case 8:
    case 9:
      return begin_fetch();
    case 10:
      return server_answers();
    case 11:
    case 12:
      return save();
    case 13:
      return odd_events();
    case 14:
      if (!queue_.empty() && pick(2) == 0) std::swap(queue_.front(), queue_[pick(queue_.size())]);
      else if (!queue_.empty()) lose();
      return;
    default:
      if (!sent_.empty()) queue_.push_back(sent_[pick(sent_.size())]); // again, under another transaction id
    }
  }

  void odd_events() {
    switch (pick(7)) {
    case 0:
      bench_.reopen();
      answer_.reset();
      fetching_ = false;
      return;
    case 1:
    case 2:
      shared_ = !shared_;
      bench_.feed(member_line(B::room, B::bob, shared_ ? "join" : "leave"));
      newest_.reset(); // whatever came before was of another time
      queue_.clear();
      return;
    case 3:
      bob_.rebuild();
      queue_.clear();
      sent_.clear();
      return;
    case 4:
      return bench_.mark("by hand");
    case 5:
      return bench_.take({device_mention{B::bob, "D" + std::to_string(pick(5))}});
    default:
      return bench_.take({unusable_update{B::bob, "odd"}});
    }
  }

  void send(owner::sent what) {
    if (!shared_) return;
    queue_.push_back(what);
    sent_.push_back(std::move(what));
  }
  void lose() {
    if (std::holds_alternative<signing_key_edu>(queue_.front().what)) keys_lost_ = true;
    queue_.pop_front();
  }

  void deliver(std::size_t n) {
    std::vector<inbound_device_change> changes;
    for (; n > 0 && !queue_.empty(); --n) {
      changes.push_back(queue_.front().what);
      if (shared_ && std::holds_alternative<device_list_edu>(queue_.front().what))
        newest_ = std::max(newest_.value_or(queue_.front().at), queue_.front().at);
      queue_.pop_front();
    }
    auto before = bench_.marks();
    bench_.take(std::move(changes));
    // Whoever fetches hears of each new mark.
    std::int64_t heard = -1;
    for (const auto& entry : bench_.last.entries)
      heard = entry.marks;
    CHECK(heard == (bench_.marks() == before ? -1 : bench_.marks()));
  }

  void begin_fetch() {
    if (fetching_) return;
    auto state = bench_.known().state;
    if (state == list_state::not_shared || (state == list_state::fresh && pick(4) != 0)) return;
    fetching_ = true;
    marks_ = std::max<std::int64_t>(0, bench_.marks());
  }
  void server_answers() {
    if (fetching_ && !answer_) answer_ = bob_.answer(marks_);
  }
  void save() {
    if (!fetching_) return;
    fetching_ = false;
    if (pick(5) == 0 || !answer_) {
      auto how = pick(2) == 0 ? save_device_list::outcome::failed : save_device_list::outcome::refused;
      bench_.save(B::failure(marks_, how, "no"));
    } else {
      auto saved = bench_.save(*answer_);
      CHECK(saved.still_stale == (bench_.marks() != -1));
      if (saved.still_stale) CHECK(saved.marks == bench_.marks());
    }
    answer_.reset();
  }

  device_map held() {
    device_map out;
    auto rows = bench_.reader->ask("SELECT device, keys FROM remote_device WHERE user = ?", B::bob);
    while (rows.step())
      out[rows.text(0)] = rows.text(1);
    return out;
  }

  /// What must hold at any moment.
  void look() {
    auto state = bench_.known().state;
    CHECK((state == list_state::not_shared) == !shared_);
    auto list = held();
    if (state == list_state::fresh) {
      auto stream = bench_.reader->integer("SELECT stream_id FROM remote_user").value_or(-1);
      // It is what the user's list was at some moment, and none before an update that was taken.
      bool true_once = std::any_of(bob_.history.begin(), bob_.history.end(), [&](const auto& one) {
        return one.first.second == stream && one.second == list && (!newest_ || one.first >= *newest_);
      });
      CHECK(true_once);
    }
    for (const auto& item : bench_.told()) {
      for (const auto& user : item["left"])
        if (user == B::bob) seen_.reset();
      for (const auto& user : item["changed"]) {
        if (user != B::bob) continue;
        seen_.reset();
        wants_ = true;
      }
    }
    // A client asks when it is told; what it saw once is what is held until it is told again.
    bool there = state == list_state::fresh || state == list_state::stale;
    if (seen_ && there) CHECK(*seen_ == list);
    if (wants_ && there) {
      seen_ = list;
      wants_ = state == list_state::stale; // it was told that this may be old
    }
    if (!there) seen_.reset();
  }

  /// All can talk: everything that was sent arrives, one change more, and the fetches that are asked for.
  void settle() {
    if (!shared_) bench_.feed(member_line(B::room, B::bob, "join"));
    shared_ = true;
    queue_.push_back(bob_.change());
    if (keys_lost_ || !bob_.master.empty()) queue_.push_back(bob_.new_master());
    deliver(1'000);
    look();
    server_answers(); // a fetch that still runs ends, with what was true before or now
    save();
    look();
    int fetches = 0;
    while (bench_.known().state != list_state::fresh && fetches < 5) {
      ++fetches;
      bench_.save(bob_.answer(std::max<std::int64_t>(0, bench_.marks())));
      look();
    }
    CHECK(fetches <= 2);
    CHECK(bench_.stale().empty());
    CHECK(held() == bob_.devices);
    CHECK(bench_.known().master_key == bob_.master);
  }

  std::mt19937 random_;
  lists_bench bench_;
  owner bob_;
  std::deque<owner::sent> queue_;
  std::vector<owner::sent> sent_;
  std::optional<std::pair<int, std::int64_t>> newest_; ///< of what was delivered
  std::optional<save_device_list> answer_;
  std::optional<device_map> seen_; ///< what a client of ours has
  std::int64_t marks_ = 0;
  bool fetching_ = false, shared_ = true, keys_lost_ = false, wants_ = false;
};

} // namespace

TEST_CASE(
    "random histories: a list that counts as fresh is true, no update is lost, clients are told of every change") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    history(seed).run();
  }
}
