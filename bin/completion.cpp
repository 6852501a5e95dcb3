#include "bin/completion.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

namespace ranvier {

namespace {

/// For a single-quoted word of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string spaced(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : " ") + word;
  return out;
}

/// The first words, each once; and what may follow the first word of a verb of two.
struct tree {
  std::vector<std::pair<std::string, std::string>> first; ///< word, sentence
  std::map<std::string, std::vector<std::string>> second;
};

tree tree_of(const std::vector<completed_verb>& verbs) {
  tree out;
  for (const auto& one : verbs) {
    const auto gap = one.verb.find(' ');
    const auto word = one.verb.substr(0, gap);
    const bool seen = std::any_of(out.first.begin(), out.first.end(), [&](const auto& p) { return p.first == word; });
    if (!seen) out.first.emplace_back(word, one.sentence);
    if (gap != std::string::npos) out.second[word].push_back(one.verb.substr(gap + 1));
  }
  return out;
}

std::vector<std::string> names_of(const std::vector<completed_option>& options) {
  std::vector<std::string> out;
  for (const auto& one : options)
    out.insert(out.end(), one.names.begin(), one.names.end());
  return out;
}

constexpr const char* servers = "ranvier ls --no-headers -o custom=destination --limit 1000 2>/dev/null";

std::string bash_script(const std::vector<completed_verb>& verbs) {
  const auto all = tree_of(verbs);
  std::ostringstream out;
  std::vector<std::string> first;
  for (const auto& [word, sentence] : all.first)
    first.push_back(word);
  out << "# bash completion for ranvier; made by 'ranvier completion bash'\n"
         "_ranvier() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb='' i\n"
         "  local verbs="
      << quoted(spaced(first))
      << "\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    if [[ \" $verbs \" == *\" ${COMP_WORDS[i]} \"* ]]; then verb=${COMP_WORDS[i]}; break; fi\n"
         "  done\n"
         "  if [[ -z $verb ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$word\"); return\n"
         "  fi\n";
  for (const auto& [word, more] : all.second)
    out << "  if [[ $verb == " << word << " ]]; then\n    case \"${COMP_WORDS[i+1]}\" in " <<
        [&] {
          std::string names;
          for (const auto& one : more)
            names += (names.empty() ? "" : "|") + one;
          return names;
        }()
        << ") verb+=\" ${COMP_WORDS[i+1]}\" ;;\n    *) mapfile -t COMPREPLY < <(compgen -W " << quoted(spaced(more))
        << " -- \"$word\"); return ;;\n    esac\n  fi\n";
  out << "  local options='' words='' names=''\n  case \"$verb\" in\n";
  for (const auto& one : verbs) {
    out << "  " << quoted(one.verb) << ")\n    options=" << quoted(spaced(names_of(one.options))) << '\n';
    if (const auto words = argument_words(one.arguments); !words.empty())
      out << "    words=" << quoted(spaced(words)) << '\n';
    if (takes_server(one.arguments)) out << "    names=1\n";
    out << "    case \"$before\" in\n";
    for (const auto& option : one.options) {
      if (!option.takes_value) continue;
      std::string names;
      for (const auto& name : option.names)
        names += (names.empty() ? "" : "|") + name;
      out << "    " << names << ") mapfile -t COMPREPLY < <(compgen "
          << (option.choices.empty() ? "-f" : "-W " + quoted(spaced(option.choices))) << " -- \"$word\"); return ;;\n";
    }
    out << "    esac ;;\n";
  }
  out << "  esac\n"
         "  [[ $word == -* ]] && words=$options\n"
         "  [[ $word != -* && -n $names ]] && words=$("
      << servers
      << ")\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o default -F _ranvier ranvier\n";
  return out.str();
}

/// Within [...] of zsh's _arguments.
std::string bracketed(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const std::vector<completed_verb>& verbs) {
  const auto all = tree_of(verbs);
  std::ostringstream out;
  out << "#compdef ranvier\n# zsh completion for ranvier; made by 'ranvier completion zsh'\n"
         "_ranvier_servers() { local -a names; names=(${(f)\"$("
      << servers
      << ")\"}); compadd -a names }\n"
         "_ranvier() {\n  local -a verbs\n  verbs=(\n";
  for (const auto& [word, sentence] : all.first)
    out << "    " << quoted(word + ':' + sentence) << '\n';
  out << "  )\n"
         "  local context state line\n"
         "  _arguments -C '1:verb:->verb' '*::argument:->rest'\n"
         "  if [[ $state == verb ]]; then _describe verb verbs; return; fi\n"
         "  local verb=$line[1]\n";
  for (const auto& [word, more] : all.second)
    out << "  if [[ $verb == " << word << " ]]; then\n    if (( CURRENT < 2 )); then compadd " << spaced(more)
        << "; return; fi\n    verb+=\" $words[1]\"; shift words; (( CURRENT-- ))\n  fi\n";
  out << "  case \"$verb\" in\n";
  for (const auto& one : verbs) {
    out << "  " << quoted(one.verb) << ") _arguments";
    for (const auto& option : one.options)
      for (const auto& name : option.names) {
        auto spec = name + '[' + bracketed(option.sentence) + ']';
        if (option.takes_value)
          spec += option.choices.empty() ? ":value:_files" : ":value:(" + spaced(option.choices) + ')';
        out << " \\\n    " << quoted(spec);
      }
    if (const auto words = argument_words(one.arguments); !words.empty())
      out << " \\\n    " << quoted("*:argument:(" + spaced(words) + ')');
    else if (takes_server(one.arguments)) out << " \\\n    '*:server:_ranvier_servers'";
    else if (!one.arguments.empty()) out << " \\\n    '*:argument:_files'";
    out << " ;;\n";
  }
  out << "  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ranvier \"$@\"; else compdef _ranvier "
         "ranvier; fi\n";
  return out.str();
}

std::string fish_script(const std::vector<completed_verb>& verbs) {
  const auto all = tree_of(verbs);
  std::ostringstream out;
  std::vector<std::string> first;
  for (const auto& [word, sentence] : all.first)
    first.push_back(word);
  out << "# fish completion for ranvier; made by 'ranvier completion fish'\ncomplete -c ranvier -f\n";
  for (const auto& [word, sentence] : all.first)
    out << "complete -c ranvier -n " << quoted("not __fish_seen_subcommand_from " + spaced(first)) << " -a " << word
        << " -d " << quoted(sentence) << '\n';
  for (const auto& [word, more] : all.second)
    out << "complete -c ranvier -n "
        << quoted("__fish_seen_subcommand_from " + word + "; and not __fish_seen_subcommand_from " + spaced(more))
        << " -a " << quoted(spaced(more)) << '\n';
  for (const auto& one : verbs) {
    std::string when;
    std::istringstream parts(one.verb);
    for (std::string part; parts >> part;)
      when += (when.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + part);
    for (const auto& option : one.options) {
      out << "complete -c ranvier -n " << quoted(when);
      for (const auto& name : option.names)
        out << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      out << " -d " << quoted(option.sentence);
      if (option.takes_value) out << (option.choices.empty() ? " -r -F" : " -x -a " + quoted(spaced(option.choices)));
      out << '\n';
    }
    if (const auto words = argument_words(one.arguments); !words.empty())
      out << "complete -c ranvier -n " << quoted(when) << " -a " << quoted(spaced(words)) << '\n';
    else if (takes_server(one.arguments))
      out << "complete -c ranvier -n " << quoted(when) << " -a " << quoted("(" + std::string(servers) + ")") << '\n';
  }
  return out.str();
}

} // namespace

std::vector<std::string> argument_words(const std::string& arguments) {
  std::istringstream parts(arguments);
  for (std::string part; parts >> part;) {
    if (part.starts_with("--")) break;
    part.erase(std::remove_if(part.begin(), part.end(), [](char c) { return c == '[' || c == ']'; }), part.end());
    std::vector<std::string> words;
    std::istringstream choice(part);
    for (std::string word; std::getline(choice, word, '|');)
      if (!word.empty() && std::islower(static_cast<unsigned char>(word[0]))) words.push_back(word);
    if (part.find('|') != std::string::npos && !words.empty()) return words;
  }
  return {};
}

bool takes_server(const std::string& arguments) {
  const auto first = arguments.substr(0, arguments.find_first_of(" |"));
  return first == "NAME" || first == "SELECTOR" || first == "[SELECTOR]";
}

std::string completion_script(const std::string& shell, const std::vector<completed_verb>& verbs) {
  if (shell == "bash") return bash_script(verbs);
  if (shell == "zsh") return zsh_script(verbs);
  if (shell == "fish") return fish_script(verbs);
  return {};
}

} // namespace ranvier
