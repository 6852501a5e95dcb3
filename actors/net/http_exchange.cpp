#include "actors/net/http_exchange.hpp"

#include "messages/canonical_json.hpp"

#include <cctype>

namespace ranvier {

std::string error_body(std::string_view errcode, std::string_view sentence) {
  std::string out = R"({"errcode":)";
  append_json_string(out, errcode);
  out += R"(,"error":)";
  append_json_string(out, sentence);
  return out += '}';
}

std::string_view http_exchange::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key.size() != name.size()) continue;
    bool same = true;
    for (std::size_t i = 0; same && i < name.size(); ++i)
      same = std::tolower(static_cast<unsigned char>(key[i])) == std::tolower(static_cast<unsigned char>(name[i]));
    if (same) return value;
  }
  return {};
}

void http_exchange::respond(int status, std::string text, http_headers extra) {
  if (claim()) do_respond(status, std::move(text), std::move(extra));
}

void http_exchange::begin_stream(int status, http_headers extra) {
  if (claim()) do_begin(status, std::move(extra));
}

} // namespace ranvier
