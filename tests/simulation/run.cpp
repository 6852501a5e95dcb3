#include "tests/simulation/run.hpp"

#include "storage/database.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace ranvier::sim {

namespace {

constexpr std::int64_t start_ms = day; // not zero: a moment of 0 means none in many places
constexpr std::int64_t longest_healing_ms = 3 * day;
constexpr std::int64_t longest_healing_of_speakers_ms = 2 * hour; ///< evidence counts at least once an hour
constexpr std::int64_t ids_remembered_ms = 4 * day; ///< 7 days by the contract, and our clock may be set by 30 hours
constexpr std::size_t lines_at_once = 500;
constexpr std::int64_t is_back_within_ms = 5 * minute;

config completed(config settings, const scenario_plan& plan) {
  settings.server_name = our_name;
  settings.delivery.max_in_flight = plan.max_in_flight;
  return settings;
}

void remove_database(const std::string& path) {
  for (const char* more : {"", "-wal", "-shm"})
    std::filesystem::remove(path + more);
}

} // namespace

/// Something that the script says, in order of time.
struct run::step {
  std::int64_t at_ms = 0;
  enum { kill, backup, inbound, change, feed } is = feed;
  std::size_t index = 0;
};

run::run(const scenario_plan& plan, config settings)
    : plan_(plan)
    , settings_(completed(std::move(settings), plan))
    , outside_(plan.seed)
    , models_(1) {
  outside_.backoff = settings_.backoff;
  script_ = make_scenario(plan, outside_, start_ms);
  tally_.bad = outside_.bad;
  const std::filesystem::path memory = "/dev/shm"; // a power loss isn't simulated, so nothing needs a disk
  const auto folder =
      (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) / "ranvier-simulation";
  std::filesystem::create_directories(folder);
  std::ostringstream name;
  name << "seed-" << plan.seed << '-' << static_cast<const void*>(this) << ".db";
  database_ = (folder / name.str()).string();
  remove_database(database_);
  remove_database(database_ + ".backup");
}

run::~run() {
  life_.reset();
  remove_database(database_);
  remove_database(database_ + ".backup");
}

std::unique_ptr<life> run::new_life() {
  auto settings = settings_;
  if (misconfigure) misconfigure(settings);
  return std::make_unique<life>(outside_, settings, database_, now_ms_);
}

std::vector<run::step> run::steps() const {
  std::vector<step> all;
  for (std::size_t i = 0; i < script_.kills.size(); ++i)
    all.push_back({script_.kills[i].at_ms, step::kill, i});
  if (script_.backup_ms) all.push_back({*script_.backup_ms, step::backup, 0});
  for (std::size_t i = 0; i < script_.inbound.size(); ++i)
    all.push_back({script_.inbound[i].at_ms, step::inbound, i});
  for (std::size_t i = 0; i < script_.changes.size(); ++i)
    all.push_back({script_.changes[i].at_ms, step::change, i});
  for (std::size_t i = 0; i < script_.feed.size(); ++i)
    all.push_back({script_.feed[i].at_ms, step::feed, i});
  std::stable_sort(all.begin(), all.end(), [](const step& a, const step& b) { return a.at_ms < b.at_ms; });
  return all;
}

/// Runs what the script says, in order of time. A batch is fed until it is answered, over kills too.
void run::go() {
  now_ms_ = start_ms;
  life_ = new_life();
  std::size_t fed = 0;
  for (const auto& one : steps()) {
    step_to(std::max(one.at_ms, now_ms_));
    switch (one.is) {
    case step::kill:
      die(script_.kills[one.index], fed < script_.feed.size() ? &script_.feed[fed] : nullptr);
      break;
    case step::backup:
      back_up();
      break;
    case step::inbound:
      inbound(script_.inbound[one.index]);
      break;
    case step::change:
      change(script_.changes[one.index]);
      break;
    case step::feed:
      feed(script_.feed[one.index]), fed = one.index + 1;
      break;
    }
  }
  finish();
}

void run::step_to(std::int64_t at_ms) {
  const auto every = plan_.failing_percent > 0 ? hour : 12 * hour;
  while (now_ms_ / every < at_ms / every) {
    const auto next = (now_ms_ / every + 1) * every;
    tally_.handled += life_->time().advance_to(next);
    now_ms_ = life_->time().now_ms();
    take_samples();
  }
  tally_.handled += life_->time().advance_to(at_ms);
  now_ms_ = life_->time().now_ms();
  fetch_wanted_lists();
}

/// Peers that are well ask for our lists, some moments after they learned that they must.
void run::fetch_wanted_lists() {
  std::erase_if(outside_.wanted_lists, [&](const auto& wanted) {
    auto& p = outside_.peers.at(wanted.first);
    if (!works(p.at(now_ms_))) return false;
    const auto list = life_->list_of(wanted.second);
    p.lists[wanted.second].take_list(list.known ? nlohmann::json::parse(list.json) : nlohmann::json::object());
    ++p.lists_fetched;
    if (outside_.traces(p.name)) outside_.note(p.name, now_ms_, "it fetched the list of " + wanted.second);
    return true;
  });
}

void run::change(const change_plan& what) {
  auto& p = outside_.peers.at(what.server);
  const auto edu = p.books[what.user].change(what.user, what.device, what.key, what.name);
  if (outside_.traces(p.name))
    outside_.note(p.name, now_ms_, what.user + " changes " + what.device + ", stream " + std::to_string(edu.stream_id));
  if (what.is != change_plan::fate::told) ++gaps_;
  if (what.is == change_plan::fate::lost) return;
  if (what.is == change_plan::fate::late) return late_[what.server].push_back(edu);
  std::vector<inbound_device_change> all{edu};
  for (auto& one : late_[what.server])
    all.push_back(std::move(one));
  late_.erase(what.server);
  life_->take_changes(what.server, std::move(all));
  tally_.handled += life_->time().drain();
}

void run::take_samples() {
  std::error_code none;
  const auto size = [&](const char* more) {
    const auto bytes = std::filesystem::file_size(database_ + more, none);
    return none ? 0 : bytes;
  };
  storage::database look(database_, storage::database::mode::read);
  const auto events = look.integer("SELECT count(*) FROM pdu").value_or(0);
  tally_.samples.push_back({now_ms_, life_->memory(), events, size("") + size("-wal")});
}

void run::feed(const feed_batch_plan& batch) {
  // A host whose lines have a seq may send all of them; without, only what the engine remembers by its id.
  if (batch.all_again) feed_again(plan_.sources ? 0 : now_ms_ - ids_remembered_ms, plan_.sources);
  feed(batch.items);
}

/// `as_it_was`: every line; else only those that an id makes harmless.
void run::feed_again(std::int64_t from_ms, bool as_it_was) {
  std::vector<feed_item> again;
  for (const auto& item : said_) {
    if (item.at_ms < from_ms || item.is == feed_item::what::rejected || item.is == feed_item::what::typing) continue;
    const bool has_id = item.is == feed_item::what::message || item.is == feed_item::what::member_event ||
                        item.is == feed_item::what::to_device || !item.line_event_id.empty();
    if (as_it_was || has_id) again.push_back(item);
  }
  const auto before = said_.size();
  feed(again);
  said_.resize(before);
}

void run::feed(const std::vector<feed_item>& items) {
  for (std::size_t from = 0; from < items.size(); from += lines_at_once) {
    const auto to = std::min(items.size(), from + lines_at_once);
    const std::vector<feed_item> part(items.begin() + static_cast<std::ptrdiff_t>(from),
                                      items.begin() + static_cast<std::ptrdiff_t>(to));
    std::vector<std::string> lines;
    for (const auto& item : part)
      lines.push_back(item.to_json());
    auto answer = life_->feed(lines);
    tally_.handled += life_->time().drain();
    for (int tries = 0; !*answer && tries < 100; ++tries)
      step_to(now_ms_ + 100);
    if (!*answer) return outside_.breach("a feed request wasn't answered within 10 s");
    took(part, **answer);
  }
}

void run::took(const std::vector<feed_item>& items, const feed_outcome& outcome) {
  if (!outcome.ok) outside_.breach("a feed request failed: " + outcome.problem);
  std::size_t rejected = 0;
  for (const auto& item : items) {
    rejected += item.is == feed_item::what::rejected ? 1 : 0;
    const auto moves = item.is == feed_item::what::roster || item.is == feed_item::what::membership;
    std::set<std::pair<std::string, std::string>> shared;
    if (moves) shared = now_model().sharing();
    now_model().apply(item, now_ms_);
    if (moves) change_sharing(shared, item);
    said_.push_back(item);
    for (const auto& server : outside_.focus)
      if (!item.id.empty() && now_model().may(server, item.id))
        outside_.note(server, now_ms_, "the feed brought " + item.id + " of " + item.room);
  }
  tally_.records += items.size();
  if (outcome.rejected.size() != rejected)
    outside_.breach("the feed rejected " + std::to_string(outcome.rejected.size()) + " lines, " +
                    std::to_string(rejected) + " were wrong" +
                    (outcome.rejected.empty() ? "" : ": " + outcome.rejected.front().error));
}

/// Whoever shares no room any more with a user of ours can't trust its list (L14).
void run::change_sharing(const std::set<std::pair<std::string, std::string>>& before, const feed_item& item) {
  const auto& after = now_model().sharing();
  for (const auto& server : outside_.focus) {
    for (const auto& [name, user] : after)
      if (name == server && before.count({name, user}) == 0)
        outside_.note(server, now_ms_, "it begins to share a room with " + user + ", " + item.to_json());
  }
  for (const auto& pair : before) {
    if (after.count(pair) > 0) continue;
    outside_.peers.at(pair.first).lists.erase(pair.second);
    outside_.wanted_lists.erase(pair);
    outside_.note(pair.first, now_ms_, "it shares no room any more with " + pair.second + ", " + item.to_json());
  }
}

/// Valid only if the engine can verify it: it may have to fetch the peer's key first.
void run::inbound(const inbound_plan& word) {
  const auto& p = outside_.peers.at(word.server);
  if (outside_.traces(word.server))
    outside_.note(word.server, now_ms_, "it sends us something, signed by " + p.key_id(now_ms_));
  life_->heard(word.server, p.key_id(now_ms_));
  tally_.handled += life_->time().drain();
  const bool others_fail = outside_.bad && now_ms_ < outside_.bad->to_ms;
  if (word.is_back && works(p.at(now_ms_)) && works(p.at(now_ms_ + is_back_within_ms)) && !others_fail)
    outside_.promises.push_back({word.server, now_ms_, now_ms_ + is_back_within_ms, "it came back and told us so"});
}

/// In the middle of something: half a feed request may be written.
void run::die(const kill_plan& how, const feed_batch_plan* next) {
  if (next != nullptr && !next->all_again) {
    std::vector<std::string> lines;
    for (const auto& item : next->items)
      lines.push_back(item.to_json());
    life_->feed(lines);
    for (auto jobs = outside_.random() % 20; jobs > 0; --jobs)
      life_->time().scheduler().try_run_once();
  }
  life_->kill();
  life_.reset();
  if (sabotage) sabotage(database_);
  outside_.killed(now_ms_, how.down_for_ms, how.wall_jump_ms);
  down_.emplace_back(now_ms_, now_ms_ + how.down_for_ms);
  now_ms_ += how.down_for_ms;
  ++tally_.lives;
  if (how.database == loss::lost) remove_database(database_);
  if (how.database == loss::restored) {
    forgotten_.emplace_back(backup_ms_, now_ms_);
    remove_database(database_);
    std::filesystem::copy_file(database_ + ".backup", database_);
  }
  if (how.database != loss::none) {
    outside_.database_replaced(how.database == loss::restored);
    replaced_ms_.push_back(now_ms_);
  }
  life_ = new_life();
  if (how.database == loss::lost) lose_database();
  if (how.database == loss::restored) restore_database();
}

/// The host's own knowledge is all that is left: who is in which room now, and what it said lately.
void run::lose_database() {
  outside_.note("", now_ms_, "the database is lost; the host feeds rosters and the last day");
  std::vector<feed_item> again;
  for (const auto& [room, known] : now_model().rooms()) {
    feed_item item;
    item.is = feed_item::what::roster;
    item.room = room;
    item.members = known.members;
    std::erase_if(item.members, [](const auto& m) { return m.second == "leave"; });
    again.push_back(std::move(item));
  }
  for (const auto& [user, devices] : now_model().devices())
    for (const auto& [device, text] : devices) {
      feed_item item;
      item.is = feed_item::what::device;
      item.sender = user;
      item.id = device;
      item.key = text.substr(0, text.find('/'));
      item.name = text.substr(text.find('/') + 1);
      again.push_back(std::move(item));
    }
  for (const auto& item : said_)
    if (item.at_ms >= now_ms_ - day && (item.is == feed_item::what::message || item.is == feed_item::what::to_device ||
                                        item.is == feed_item::what::member_event))
      again.push_back(item);
  for (auto& item : again)
    item.seq = 0;
  models_.emplace_back();
  const auto before = said_.size();
  feed(again);
  said_.resize(before);
}

/// The host asks how far its source came (or remembers when the backup was made) and goes on from there.
void run::restore_database() {
  outside_.note("", now_ms_, "the database is a backup; the host feeds what it said since then");
  models_.push_back(*backup_model_);
  const std::vector<feed_item> since(said_.begin() + static_cast<std::ptrdiff_t>(said_at_backup_), said_.end());
  said_.resize(said_at_backup_);
  feed(since);
}

void run::back_up() {
  storage::database copy(database_, storage::database::mode::write);
  copy.run("VACUUM INTO ?", database_ + ".backup");
  backup_model_ = now_model();
  said_at_backup_ = said_.size();
  backup_ms_ = now_ms_;
}

bool run::forgotten(std::int64_t at_ms) const {
  return std::any_of(forgotten_.begin(), forgotten_.end(),
                     [at_ms](const auto& span) { return span.first < at_ms && at_ms <= span.second; });
}

/// All peers are well now: everything must arrive without anybody saying anything more.
void run::finish() {
  step_to(std::max(script_.healed_ms, now_ms_));
  for (const auto& [name, p] : outside_.peers)
    incomplete_.insert(name);
  const auto end = now_ms_ + (plan_.speak_when_well ? longest_healing_of_speakers_ms : longest_healing_ms);
  while (now_ms_ < end && !complete()) {
    if (plan_.speak_when_well)
      for (const auto& name : incomplete_)
        life_->heard(name, outside_.peers.at(name).key_id(now_ms_));
    step_to(now_ms_ + (plan_.speak_when_well ? minute : hour));
  }
  tally_.healing_ms = now_ms_ - script_.healed_ms;
  step_to(now_ms_ + 10 * minute); // acks are gathered, destinations retire
  check_everything();
}

bool run::complete() {
  std::erase_if(incomplete_, [&](const std::string& name) {
    const auto owed = life_->owed(name, life_->row_of(name).at);
    return owed.pdus + owed.to_device + owed.device_lists == 0;
  });
  return incomplete_.empty() && life_->stale().empty();
}

} // namespace ranvier::sim
