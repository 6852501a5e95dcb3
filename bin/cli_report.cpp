#include "bin/cli.hpp"
#include "bin/cli_config.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

namespace ranvier {

namespace {

using nlohmann::json;
constexpr std::int64_t most_events = 500;

/// What each part of the bundle is asked for.
const std::vector<std::pair<const char*, const char*>>& parts() {
  static const std::vector<std::pair<const char*, const char*>> all{
      {"stats", "/stats"},
      {"config", "/config"},
      {"actors", "/actors"},
      {"closed_destinations", "/destinations?state=closed&limit=1000&order_by=waiting&dir=desc"},
      {"held_destinations", "/destinations?state=held&limit=1000"},
      {"partial_joins", "/partial_joins"},
      {"stale_users", "/stale_users?limit=1000"},
      {"quarantine", "/quarantine?limit=1000"},
      {"shape", "/shape?limit=100"},
      {"audit", "/audit?limit=200"}};
  return all;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Texts that must not leave this machine, as far as this process may read them: the tokens, and the seed of the
/// signing key. None of them is in what the engine answers; looked for all the same.
std::set<std::string> secrets_of(const std::string& data_dir, const json& config) {
  std::vector<std::string> files{data_dir + "/host_token", data_dir + "/admin_token", data_dir + "/signing.key"};
  for (const auto& key : config.value("config", json::array()))
    if (const auto name = key.value("key", ""); name == "signing_key" || name == "data_dir")
      if (const auto path = json::parse(key.value("value", ""), nullptr, false); path.is_string())
        for (const auto* file : {"", "/host_token", "/admin_token", "/signing.key"})
          files.push_back(path.get<std::string>() + file);
  std::set<std::string> out;
  for (const auto& file : files) {
    std::istringstream words(text_of_file(file));
    for (std::string word; words >> word;)
      if (word.size() >= 16) out.insert(word);
  }
  return out;
}

/// Passwords in addresses ("http://user:password@host").
void blank_passwords(std::string& text) {
  for (auto at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const auto end = text.find_first_of("/ \t\n\"'", at + 3), sign = text.find('@', at + 3);
    if (sign != std::string::npos && (end == std::string::npos || sign < end))
      text.replace(at + 3, sign - at - 3, "(blanked)");
  }
}

std::string blanked(std::string text, const std::set<std::string>& secrets) {
  for (const auto& secret : secrets)
    for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret))
      text.replace(at, secret.size(), "(blanked)");
  blank_passwords(text);
  return text;
}

json part_of(const admin_client& engine, const std::string& path) {
  try {
    return engine.get(path);
  } catch (const cli_failure& problem) {
    if (problem.code == exit_unreachable) throw;
    return {{"problem", problem.what()}};
  }
}

/// What the engine remembers of its log, newest last.
json events_of(const admin_client& engine) {
  json out = json::array();
  try {
    engine.stream("/events?follow=false&last=" + std::to_string(most_events), [&](const std::string& data) {
      auto event = json::parse(data, nullptr, false);
      if (event.is_object()) out.push_back(std::move(event));
      return true;
    });
  } catch (const cli_failure& problem) {
    out.push_back({{"problem", problem.what()}});
  }
  return out;
}

} // namespace

int write_report(const admin_client& engine, const std::string& file, const std::string& data_dir) {
  // Opened first: a file that can't be written is no reason to ask the engine for anything.
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (out < 0)
    throw cli_failure(exit_no, errno == EEXIST ? file + " exists already; it is not overwritten"
                                               : file + " can't be made: " + std::strerror(errno));
  std::string text;
  try {
    json all{{"made_ms", wall_now_ms()}, {"made_by", "ranvier " RANVIER_VERSION}};
    for (const auto& [name, path] : parts())
      all[name] = part_of(engine, path);
    all["log"] = events_of(engine);
    text = blanked(dumped(all, 1) + '\n', secrets_of(data_dir, all["config"]));
  } catch (...) {
    ::close(out);
    ::unlink(file.c_str());
    throw;
  }
  std::size_t done = 0;
  while (done < text.size()) {
    const auto wrote = ::write(out, text.data() + done, text.size() - done);
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  if (::close(out) != 0 || done < text.size()) {
    ::unlink(file.c_str());
    throw cli_failure(exit_fault, file + " can't be written: is the disk full?");
  }
  std::cerr << file << " has configuration, status, actors, closed and held destinations, joins, stale users, "
            << "quarantine, audit log and the last log lines, without secrets. It names servers, rooms and users: look "
            << "through it before you give it away.\n";
  return exit_ok;
}

} // namespace ranvier
