#include "bin/cli.hpp"

#include "bin/arguments.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/command_help.hpp"
#include "bin/command_line.hpp"
#include "bin/commands.hpp"
#include "bin/demo.hpp"
#include "bin/listing.hpp"
#include "bin/serve.hpp"
#include "bin/sink.hpp"

#include <exception>
#include <iostream>
#include <set>

namespace ranvier {

command_line::command_line() {
  app_.formatter(std::make_shared<command_formatter>());
  app_.require_subcommand(1);
  app_.set_help_all_flag("--help-all", "help of every verb");
  app_.set_version_flag("--version", "ranvier " RANVIER_VERSION, "name and version");
  local_verbs();
  serve_verb();
  sink_verb();
  look_verbs();
  inspect_verbs();
  live_verbs();
  act_verbs();
  subject_verbs();
  probe_verbs();
  run_verbs();
  join_verbs();
  quarantine_verbs();
  engine_verbs();
  database_verbs();
}

CLI::App* command_line::verb(const std::string& name, std::function<int()> run, CLI::App* under) {
  const auto path = under ? under->get_name() + ' ' + name : name;
  auto* sub = (under ? under : &app_)->add_subcommand(name, command_of(path).sentence);
  sub->callback([this, run] { run_ = run; });
  return sub;
}

CLI::App* command_line::engine_verb(const std::string& name, const std::function<int(const admin_client&)>& run,
                                    CLI::App* under) {
  auto asked = [this, run] { return run(admin_client(find_engine(engine_))); };
  auto* sub = verb(
      name, [this, asked] { return watched(listing_, asked); }, under);
  const std::string group = "Which engine";
  sub->add_option("--socket", engine_.socket, "the engine's admin socket")->group(group);
  sub->add_option("--data-dir", engine_.data_dir,
                  "the engine's data folder (default: RANVIER_DATA_DIR, ./ranvier-data)")
      ->group(group);
  sub->add_option("--url", engine_.url, "the engine's admin listener, http://host:port")->group(group);
  sub->add_option("--token-file", engine_.token_file, "with --url (default: admin_token in the data folder)")
      ->group(group);
  sub->add_option("--config", engine_.config_file, "the engine's configuration, for its data folder")->group(group);
  return sub;
}

void command_line::listing_flags(CLI::App* sub) {
  sub->add_option("-o,--output", listing_.output, "table, wide, json, jsonl or custom=COLUMN,...")
      ->check([](const std::string& given) {
        static const std::set<std::string> known{"table", "wide", "json", "jsonl"};
        return known.contains(given) || given.starts_with("custom=")
                   ? std::string()
                   : given + " is not table, wide, json, jsonl or custom=...";
      });
  sub->add_option("--sort", listing_.sort, "by this column; with - in front the other way round");
  sub->add_option("--limit", listing_.limit, "at most so many")->check(CLI::NonNegativeNumber);
  sub->add_option_function<std::string>(
         "--watch",
         [this](const std::string& seconds) { listing_.watch_s = seconds.empty() ? 2 : std::atof(seconds.c_str()); },
         "again and again, every so many seconds (2)")
      ->expected(0, 1)
      ->check(CLI::PositiveNumber);
  sub->add_flag_callback(
      "--no-headers", [this] { listing_.headers = false; }, "no line of titles");
}

void command_line::selector_flags(CLI::App* sub) {
  sub->add_option("selector", selector_.pattern, "a name, a glob, or - for names from standard input");
  sub->add_option("--state", selector_.state, "only those in this state")
      ->check(CLI::IsMember({"open", "closed", "probing", "held", "denied"}));
  sub->add_option("--error", selector_.error, "only those whose last error is of this class");
  sub->add_option("--older", selector_.older, "only those for which something waits as long, like 1h");
}

/// Keys of the configuration that have a flag of their own.
void command_line::config_flags(CLI::App* sub) {
  sub->add_option("--config", config_.file, "configuration (TOML)");
  for (const auto& [flag, key] :
       std::vector<std::pair<const char*, const char*>>{{"--server-name", "server_name"},
                                                        {"--data-dir", "data_dir"},
                                                        {"--signing-key", "signing_key"},
                                                        {"--federation-listen", "federation.listen"},
                                                        {"--host-listen", "host.listen"},
                                                        {"--admin-listen", "admin.listen"},
                                                        {"--tls-certificate", "federation.tls_certificate"},
                                                        {"--tls-private-key", "federation.tls_private_key"},
                                                        {"--log-level", "log.level"},
                                                        {"--log-format", "log.format"}})
    sub->add_option_function<std::string>(
        flag, [this, where = std::string(key)](const std::string& value) { config_.flags[where] = value; },
        std::string("instead of ") + key + " of the configuration");
}

void command_line::local_verbs() {
  output_option(verb("version", [this] { return print_version(listing_.output); }), {"text", "json"});
  auto* key = verb("generate-key", [this] { return generate_key(out_file_); });
  key->add_option("--out", out_file_, "write it to this new file (mode 0600) instead of standard output");
  auto* check = verb("check-config", [this] { return check_config(config_); });
  config_flags(check);
  verb("demo", [] { return run_demo(); });
  verb("completion",
       [this] {
         std::cout << completion_script(name_, completed_verbs(app_));
         return exit_ok;
       })
      ->add_option("shell", name_, "the shell that it is for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void command_line::serve_verb() {
  auto* sub = verb("serve", [this] {
    serve_.reload = [this] { return load_config(config_, true); };
    const auto settings = load_config(config_, true);
    serve_.origins = origins_of(config_);
    return serve(settings, serve_);
  });
  config_flags(sub);
  sub->add_flag("--accept-new-identity", serve_.accept_new_identity,
                "start although server name or key are not those that the database was made with");
}

void command_line::sink_verb() {
  auto* sub = verb("sink", [this] {
    auto span = [](const char* option, const std::string& text) {
      auto ms = text.empty() ? 0 : parse_duration(text);
      if (ms < 0) throw cli_failure(exit_usage, std::string(option) + " must be a duration like 2s, it is " + text);
      return ms;
    };
    sink_.behaviour.delay_ms = span("--delay", delay_);
    sink_.behaviour.down_ms = span("--down", down_);
    try {
      for (const auto& each : fail_)
        sink_.behaviour.failures.push_back(parse_failing(each));
    } catch (const std::invalid_argument& problem) {
      throw cli_failure(exit_usage, problem.what());
    }
    sink_.behaviour.refuse.insert(refuse_.begin(), refuse_.end());
    sink_.behaviour.poison.insert(poison_.begin(), poison_.end());
    if (sink_.listen.empty()) sink_.listen = "127.0.0.1:8448";
    return run_sink(sink_);
  });
  sub->add_option("--name", sink_.name, "the server name that it plays")->required();
  sub->add_option("--listen", sink_.listen, "host:port (default: 127.0.0.1:8448)");
  sub->add_flag("--plain", sink_.plain, "without TLS");
  sub->add_option("--certificate-out", sink_.certificate_out, "write its certificate there, for the engine's ca_file");
  sub->add_option("--room-version", sink_.room_version, "of its rooms, for event ids (default: 10)");
  sub->add_option("--fail", fail_, "answer so at first: STATUS or STATUS:TIMES; may be given several times")
      ->expected(1);
  sub->add_option("--delay", delay_, "wait so long before each answer");
  sub->add_option("--refuse", refuse_, "an event that gets an error of its own; may be given several times")
      ->expected(1);
  sub->add_option("--poison", poison_, "an event because of which a whole transaction is answered 400")->expected(1);
  sub->add_option("--down", down_, "don't listen for so long at first");
}

void command_line::look_verbs() {
  output_option(engine_verb("status", [this](const auto& engine) { return show_status(engine, listing_.output); }),
                {"text", "json"});
  auto* ls = engine_verb("ls", [this](const auto& engine) { return list_destinations(engine, selector_, listing_); });
  selector_flags(ls);
  listing_flags(ls);
  auto* show =
      engine_verb("show", [this](const auto& engine) { return show_destination(engine, name_, listing_.output); });
  show->add_option("name", name_, "server name")->required();
  output_option(show, {"text", "json"});
  listing_flags(engine_verb("stale-users", [this](const auto& engine) { return list_stale_users(engine, listing_); }));
  listing_flags(engine_verb("actors", [this](const auto& engine) { return list_actors(engine, listing_); }));
}

void command_line::inspect_verbs() {
  auto* why = engine_verb("why", [this](const auto& engine) { return show_why(engine, name_, listing_.output); });
  why->add_option("subject", name_, "a server name, $event, @user:server or !room")->required();
  output_option(why, {"text", "json"});
  auto* shape = engine_verb("shape", [this](const auto& engine) { return show_shape(engine, selector_, listing_); });
  selector_flags(shape);
  listing_flags(shape);
  using of_one = int (*)(const admin_client&, const std::string&, const listing_options&);
  for (const auto& [name, run] : std::vector<std::pair<const char*, of_one>>{
           {"queue", list_queue}, {"rooms", list_rooms}, {"attempts", list_attempts}}) {
    auto* sub = engine_verb(name, [this, run = run](const auto& engine) { return run(engine, name_, listing_); });
    sub->add_option("name", name_, "server name")->required();
    listing_flags(sub);
  }
  listing_flags(engine_verb("audit", [this](const auto& engine) { return list_audit(engine, listing_); }));
}

void command_line::live_verbs() {
  auto* events = engine_verb(
      "events", [this](const auto& engine) { return show_events(engine, follow_, count_, listing_.output); });
  events->add_flag("-f,--follow", follow_, "go on");
  events->add_option("--last", count_, "so many of those that are remembered come first (100)")
      ->check(CLI::NonNegativeNumber);
  output_option(events, {"text", "json", "jsonl"});
  auto* trace =
      engine_verb("trace", [this](const auto& engine) { return trace_destination(engine, name_, listing_.output); });
  trace->add_option("name", name_, "server name")->required();
  output_option(trace, {"text", "json", "jsonl"});
  auto* top = engine_verb("top", [this](const auto& engine) { return show_top(engine, listing_); });
  listing_flags(top);
  auto* stat =
      engine_verb("stat", [this](const auto& engine) { return show_stat(engine, seconds_, times_, listing_.output); });
  stat->add_option("seconds", seconds_, "between two lines (5)")->check(CLI::PositiveNumber);
  stat->add_option("--count", times_, "so many lines, then end")->check(CLI::PositiveNumber);
  output_option(stat, {"text", "json", "jsonl"});
  auto* config = app_.add_subcommand("config", "the configuration in force");
  config->require_subcommand(1);
  auto* show = engine_verb(
      "show", [this](const auto& engine) { return show_config(engine, origin_, listing_.output); }, config);
  show->add_flag("--origin", origin_, "with where each one was given");
  output_option(show, {"text", "json"});
}

void command_line::act_verbs() {
  for (const auto* name : {"wake", "hold", "release", "reset"}) {
    auto* sub = engine_verb(name, [this, act = std::string(name)](const auto& engine) {
      act_.verb = act;
      act_.output = listing_.output;
      return act_on(engine, selector_, act_);
    });
    selector_flags(sub);
    output_option(sub, {"text", "json"});
    if (std::string(name) != "hold") continue;
    sub->add_option("--reason", act_.reason, "why, for those who come later")->required();
    sub->add_option("--for", act_.lasts, "only so long, like 2h");
  }
}

void command_line::subject_verbs() {
  auto* sub = engine_verb("resync", [this](const auto& engine) { return resync_user(engine, name_, listing_.output); });
  sub->add_option("user", name_, "user id, like @bob:remote.test")->required();
  output_option(sub, {"text", "json"});
}

void command_line::probe_verbs() {
  auto* route = engine_verb(
      "resolve", [this](const auto& engine) { return show_route(engine, name_, no_cache_, listing_.output); });
  route->add_option("name", name_, "server name")->required();
  route->add_flag("--no-cache", no_cache_, "look everything up anew, and forget what was known");
  output_option(route, {"text", "json"});
  auto* look =
      engine_verb("probe", [this](const auto& engine) { return probe_server(engine, name_, listing_.output); });
  look->add_option("name", name_, "server name")->required();
  output_option(look, {"text", "json"});
}

int command_line::run(std::vector<std::string> words) {
  std::set<std::string> verbs, flags{"-h", "--help", "--help-all", "--version"};
  for (const auto* sub : app_.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.insert(sub->get_name());
    for (const auto* option : sub->get_options())
      if (option->get_items_expected_max() == 0)
        for (const auto& name : option->get_lnames())
          flags.insert("--" + name);
  }
  words = verb_first(words, verbs, flags);
  std::reverse(words.begin(), words.end()); // as CLI11 takes them
  try {
    app_.parse(words);
  } catch (const CLI::ParseError& problem) {
    // Help that was asked for is data; everything else is a complaint.
    return app_.exit(problem, std::cout, std::cerr) == 0 ? exit_ok : exit_usage;
  }
  return run_();
}

int run_command_line(int argc, char** argv) {
  try {
    command_line line;
    int code = line.run({argv + 1, argv + argc});
    std::cout.flush();
    return code == exit_ok && !std::cout ? exit_fault : code;
  } catch (const cli_failure& problem) {
    std::cerr << problem.what() << '\n';
    return problem.code;
  } catch (const std::exception& problem) {
    std::cerr << "ranvier failed: " << problem.what() << '\n';
    return exit_fault;
  }
}

} // namespace ranvier
