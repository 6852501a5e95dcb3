// Reads JSON texts from stdin, one a line, and prints what we make of each, so that another implementation can be
// compared (tests/crosscheck/json_against_python.py). A line of the answer has fields with tabs between them, which
// canonical JSON can't hold:
//   strict canonical JSON | lenient canonical JSON | signature with the specification's key | then for each room
//   version from 1 to 12: event id (as a JSON string), content hash and signature as an event, with spaces between
// Instead of a value that can't be had: "!" and not_json or bad_json.
#include "messages/canonical_json.hpp"
#include "messages/event.hpp"
#include "messages/signing.hpp"

#include <functional>
#include <iostream>
#include <string>

using namespace ranvier;

namespace {

std::string verdict_or(const std::function<std::string()>& make) {
  try {
    return make();
  } catch (const json_problem& problem) {
    return problem.is_json ? "!bad_json" : "!not_json";
  }
}

std::string signature_of(const std::string& text, const signing_key& key) {
  const auto signed_text = sign_json(text, "domain", key);
  const json_document document(signed_text);
  return std::string(string_member(document.root()["signatures"]["domain"], key.key_id()).value_or(""));
}

/// As an event of a room of that version: id, content hash and signature.
std::string event_fields(const std::string& text, const char* version, const signing_key& key) {
  const auto rules = *rules_of(version);
  const auto done = sign_event(text, rules, "domain", key);
  const json_document document(done.event);
  const auto hash = string_member(document.root()["hashes"], "sha256").value_or("");
  const auto signature = string_member(document.root()["signatures"]["domain"], key.key_id()).value_or("");
  return json_string(done.event_id).append(" ").append(hash).append(" ").append(signature);
}

} // namespace

int main() {
  std::ios::sync_with_stdio(false);
  const auto key = signing_key::from_file_text("ed25519 1 YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1");
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << verdict_or([&] { return canonical_json(line); }) << '\t'
              << verdict_or([&] { return canonical_json(line, numbers::lenient); }) << '\t'
              << verdict_or([&] { return signature_of(line, key); });
    for (const auto& version : known_room_versions())
      std::cout << '\t' << verdict_or([&] { return event_fields(line, version.c_str(), key); });
    std::cout << '\n';
  }
}
