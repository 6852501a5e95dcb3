#include "bin/demo_stage.hpp"

#include "bin/cli_verbs.hpp"
#include "bin/table.hpp"

#include <httplib.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

namespace ranvier {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;
constexpr std::int64_t look_every_ms = 20, engine_starts_within_ms = 15'000, engine_ends_within_ms = 10'000;
constexpr std::int64_t read_within_ms = 1'500; ///< for people: what a scene said, before the next
constexpr std::size_t log_lines_shown = 12;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error(path + " can't be written: is the disk full?");
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string quoted(const std::string& text) { return json(text).dump(); }

} // namespace

own_folder::own_folder() {
  auto pattern = (fs::temp_directory_path() / "ranvier-demo-").string() + std::string(6, 'X');
  if (!::mkdtemp(pattern.data()))
    throw std::runtime_error("no folder can be made in " + fs::temp_directory_path().string() + "; set TMPDIR");
  path_ = pattern;
}

own_folder::~own_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

demo_stage::demo_stage(std::string engine_name, const std::vector<std::string>& server_names)
    : engine_name_(std::move(engine_name))
    , certificate_(make_certificate(server_names))
    , key_(signing_key::generate())
    , screen_(screen_of(STDOUT_FILENO)) {
  std::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&signals_);
  for (const int one : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals_, one);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  std::random_device chance;
  network_ = "127." + std::to_string(64 + chance() % 128) + '.' + std::to_string(1 + chance() % 254) + '.';
}

demo_server& demo_stage::add(const std::string& name, sink_behaviour behaviour) {
  const auto address = network_ + std::to_string(servers_.size() + 2);
  servers_.push_back(std::make_unique<demo_server>(name, address, std::move(behaviour), certificate_));
  return *servers_.back();
}

void demo_stage::start_engine() {
  const auto data = folder_.path() + "/data";
  auto free_port = [this] { return network_ + "1:" + std::to_string(socket_held(network_ + "1", 0).port()); };
  federation_ = free_port();
  do
    host_ = free_port();
  while (host_ == federation_);
  write_file(folder_.path() + "/ca.pem", certificate_.certificate_pem);
  write_file(folder_.path() + "/signing.key", key_.file_text());
  std::ostringstream text;
  text << "server_name = " << quoted(engine_name_) << "\ndata_dir = " << quoted(data)
       << "\nsigning_key = " << quoted(folder_.path() + "/signing.key") << "\n[host]\nlisten = " << quoted(host_)
       << "\n[backoff]\nfirst = \"500ms\"\nmax = \"4s\"\n[delivery]\njoin_update_delay = \"200ms\"\n"
       << "[federation]\nlisten = " << quoted(federation_) << "\nca_file = " << quoted(folder_.path() + "/ca.pem")
       << "\n[federation.addresses]\n";
  for (const auto& server : servers_)
    text << quoted(server->name()) << " = " << quoted(server->address()) << '\n';
  write_file(folder_.path() + "/ranvier.toml", text.str());
  // What the caller's environment says about some other engine isn't for this one.
  std::vector<std::string> others;
  for (char** one = environ; *one; ++one)
    if (const std::string entry = *one; entry.starts_with("RANVIER_"))
      others.push_back(entry.substr(0, entry.find('=')));
  for (const auto& name : others)
    ::unsetenv(name.c_str());
  engine_ =
      std::make_unique<child_process>(std::vector<std::string>{fs::read_symlink("/proc/self/exe").string(), "serve",
                                                               "--config", folder_.path() + "/ranvier.toml"},
                                      folder_.path() + "/engine.log");
  wait(
      "the engine is ready",
      [this] {
        httplib::Client client("http://" + host_);
        const auto result = client.Get("/readyz");
        return result && result->status == 200;
      },
      engine_starts_within_ms);
  token_ = read_line(data + "/host_token");
}

void demo_stage::end_engine() {
  if (engine_) engine_->end(engine_ends_within_ms);
  engine_.reset();
}

json demo_stage::host(const std::string& method, const std::string& path, const json& body) {
  httplib::Client client("http://" + host_);
  client.set_read_timeout(std::chrono::seconds(20));
  const httplib::Headers headers{{"Authorization", "Bearer " + token_}};
  const auto target = "/_ranvier/v1" + path;
  const auto result = method == "GET"
                          ? client.Get(target, headers)
                          : client.Post(target, headers, body.is_string() ? body.get<std::string>() : body.dump(),
                                        body.is_string() ? "application/x-ndjson" : "application/json");
  if (!result) throw demo_fell_short("the engine doesn't answer " + method + ' ' + path);
  if (result->status != 200)
    throw demo_fell_short(method + ' ' + path + " was answered " + std::to_string(result->status) + ": " +
                          result->body);
  return json::parse(result->body, nullptr, false);
}

void demo_stage::feed(const std::vector<json>& lines) {
  std::string text;
  for (const auto& line : lines)
    text += line.dump() + '\n';
  const auto answer = host("POST", "/feed", json(text));
  if (number_in(answer, "accepted") != std::int64_t(lines.size()))
    throw demo_fell_short("the engine didn't take all that the host fed: " + answer.dump());
}

void demo_stage::scene(const std::string& title) {
  if (::isatty(STDOUT_FILENO)) pause(read_within_ms);
  show('\n' + painted(title, tone::strong, screen_));
}

void demo_stage::say(const std::string& who, const std::string& what, tone how) {
  std::ostringstream line;
  line.precision(1);
  line << std::fixed << double(elapsed()) / 1000 << 's';
  auto time = line.str(), name = who;
  time.insert(0, time.size() < 6 ? 6 - time.size() : 0, ' ');
  name.append(name.size() < 14 ? 14 - name.size() : 0, ' ');
  show(painted(time, tone::faint, screen_) + "  " + name + ' ' + painted(what, how, screen_));
}

void demo_stage::show(const std::string& text) {
  std::cout << text << std::endl;
  if (!std::cout) throw demo_fell_short("nobody reads what the demo says");
}

void demo_stage::pause(std::int64_t ms) {
  const timespec span{ms / 1'000, ms % 1'000 * 1'000'000};
  if (::sigtimedwait(&signals_, nullptr, &span) > 0) throw demo_interrupted();
}

void demo_stage::wait(const std::string& what, const std::function<bool()>& happened, std::int64_t within_ms) {
  const auto end = elapsed() + within_ms;
  while (!happened()) {
    if (engine_ && !engine_->running()) throw demo_fell_short("the engine has ended while this was awaited: " + what);
    if (elapsed() > end) throw demo_fell_short("within " + span_text(within_ms) + " it didn't come about that " + what);
    pause(look_every_ms);
  }
}

std::int64_t demo_stage::elapsed() const {
  const auto since = std::chrono::steady_clock::now() - began_;
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

std::string demo_stage::log_tail() const {
  std::ifstream file(folder_.path() + "/engine.log");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  std::string out;
  for (auto i = lines.size() - std::min(lines.size(), log_lines_shown); i < lines.size(); ++i)
    out += printable(lines[i]) + '\n';
  return out;
}

} // namespace ranvier
