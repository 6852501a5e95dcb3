#include "messages/x_matrix.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace {

constexpr std::string_view scheme = "X-Matrix";

bool is_space(char c) { return c == ' ' || c == '\t'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

void append_parameter(std::string& out, std::string_view name, std::string_view value) {
  if (out.back() != ' ') out += ',';
  out.append(name).append("=\"");
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

/// Reads a header from left to right.
class header_reader {
public:
  explicit header_reader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  void skip_spaces() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  void skip_separators() {
    while (!rest_.empty() && (is_space(rest_.front()) || rest_.front() == ',')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// Up to a space, a comma or one of `also`.
  std::string_view take_token(std::string_view also) {
    std::size_t end = 0;
    while (end < rest_.size() && !is_space(rest_[end]) && rest_[end] != ',' &&
           also.find(rest_[end]) == std::string_view::npos)
      ++end;
    const auto token = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return token;
  }
  /// What stands between quotes, the first of which is taken already (A2).
  std::optional<std::string> take_quoted() {
    std::string out;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return out;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      out += rest_[i];
    }
    return std::nullopt;
  }

private:
  std::string_view rest_;
};

struct parameter {
  std::string name, value;
  std::string problem;
};

parameter read_parameter(header_reader& reader) {
  parameter out;
  out.name = lower(reader.take_token("=\""));
  reader.skip_spaces();
  if (out.name.empty() || !reader.take('=')) {
    out.problem = "The Authorization header has a parameter that isn't name=value.";
    return out;
  }
  reader.skip_spaces();
  if (reader.take('"')) {
    auto value = reader.take_quoted();
    if (!value) {
      out.problem = "The Authorization header has a quote that isn't closed.";
      return out;
    }
    out.value = std::move(*value);
  } else {
    out.value = reader.take_token("\"");
  }
  reader.skip_spaces();
  if (!reader.at_end() && !reader.take(','))
    out.problem = "The Authorization header's parameters must have commas between them.";
  return out;
}

/// Where a parameter's value belongs; nullptr for one that is ignored (A3).
std::optional<std::string>* slot_of(const std::string& name, std::optional<std::string>& origin,
                                    std::optional<std::string>& destination, std::optional<std::string>& key,
                                    std::optional<std::string>& signature) {
  if (name == "origin") return &origin;
  if (name == "destination") return &destination;
  if (name == "key") return &key;
  if (name == "sig" || name == "signature") return &signature; // X4: the specification has both names
  return nullptr;
}

x_matrix malformed(std::string problem) {
  x_matrix out;
  out.problem = std::move(problem);
  return out;
}

} // namespace

std::string x_matrix_bytes(std::string_view method, std::string_view uri, std::string_view origin,
                           std::string_view destination, std::string_view content) {
  std::string out = "{";
  out.reserve(content.size() + uri.size() + origin.size() + destination.size() + 80);
  if (!content.empty()) out.append("\"content\":").append(content).append(",");
  const auto member = [&out](std::string_view name, std::string_view value) {
    out.append("\"").append(name).append("\":");
    append_json_string(out, value);
  };
  member("destination", destination);
  out += ',';
  member("method", method);
  out += ',';
  member("origin", origin);
  out += ',';
  member("uri", uri);
  out += '}';
  return out;
}

std::string x_matrix_header(std::string_view method, std::string_view uri, std::string_view origin,
                            std::string_view destination, std::string_view content, const signing_key& key) {
  std::string out(scheme);
  out += ' ';
  append_parameter(out, "origin", origin);
  append_parameter(out, "destination", destination);
  append_parameter(out, "key", key.key_id());
  append_parameter(out, "sig", key.sign(x_matrix_bytes(method, uri, origin, destination, content)));
  return out;
}

x_matrix parse_x_matrix(std::string_view header) {
  while (!header.empty() && is_space(header.back())) header.remove_suffix(1);
  header_reader reader(header);
  reader.skip_spaces();
  if (lower(reader.take_token("")) != lower(scheme))
    return malformed("The Authorization header must be of the scheme X-Matrix.");
  std::optional<std::string> origin, destination, key, signature;
  for (reader.skip_separators(); !reader.at_end(); reader.skip_separators()) {
    auto one = read_parameter(reader);
    if (!one.problem.empty()) return malformed(std::move(one.problem));
    auto* slot = slot_of(one.name, origin, destination, key, signature);
    if (!slot) continue;
    if (*slot) return malformed("The Authorization header has the parameter " + one.name + " twice.");
    *slot = std::move(one.value);
  }
  if (!origin || !key || !signature)
    return malformed("The Authorization header must have the parameters origin, key and sig.");
  if (!is_server_name(*origin)) return malformed("The Authorization header's origin is no server name.");
  if (!key->starts_with("ed25519:")) return malformed("The Authorization header's key must be an ed25519 key.");
  return {std::move(*origin), destination.value_or(""), std::move(*key), std::move(*signature), ""};
}

} // namespace ranvier
