#include "bin/cli_config.hpp"

#include "bin/admin_client.hpp"
#include "bin/cli.hpp"
#include "messages/config_origin.hpp"
#include "messages/signing.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace ranvier {

std::map<std::string, std::string> ranvier_environment() {
  std::map<std::string, std::string> out;
  for (char** each = environ; each && *each; ++each) {
    std::string entry = *each;
    auto equals = entry.find('=');
    if (entry.starts_with("RANVIER_") && equals != std::string::npos)
      out[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return out;
}

std::string read_text_file(const std::string& path, int code) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) throw cli_failure(code, path + " can't be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

config load_config(const config_source& from, bool need_name) {
  auto text = from.file.empty() ? std::string() : read_text_file(from.file, exit_config);
  auto result = read_config(text, from.file, ranvier_environment(), from.flags);
  if (result.problems.empty() && need_name && result.value.server_name.empty())
    result.problems.push_back(
        (from.file.empty() ? std::string("configuration") : from.file) +
        ": \"server_name\" is missing: set it there, in RANVIER_SERVER_NAME or with --server-name");
  if (result.problems.empty()) return std::move(result.value);
  std::string all;
  for (const auto& problem : result.problems)
    all += (all.empty() ? "" : "\n") + problem;
  throw cli_failure(exit_config, all);
}

std::map<std::string, std::string> origins_of(const config_source& from) {
  return config_origins(from.file.empty() ? std::string() : read_text_file(from.file, exit_config), from.file,
                        ranvier_environment(), from.flags);
}

std::vector<std::string> file_problems(const config& settings) {
  std::vector<std::string> out;
  auto readable = [&](const char* key, const std::string& path) {
    if (path.empty()) return;
    if (std::ifstream in(path); !in || std::filesystem::is_directory(path))
      out.push_back('"' + std::string(key) + "\" names " + path + ", which can't be read");
  };
  readable("federation.tls_certificate", settings.federation.tls_certificate);
  readable("federation.tls_private_key", settings.federation.tls_private_key);
  readable("federation.ca_file", settings.federation.ca_file);
  auto key = settings.signing_key.empty() ? settings.data_dir + "/signing.key" : settings.signing_key;
  if (!std::filesystem::exists(key)) return out; // it is made at the first start
  try {
    start_crypto();
    signing_key::from_file_text(read_text_file(key, exit_config));
  } catch (const std::exception& problem) {
    out.push_back("the signing key in " + key + " can't be used: " + problem.what());
  }
  return out;
}

} // namespace ranvier
