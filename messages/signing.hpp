#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace ranvier {

/// Base64 as Matrix writes it (C7): standard alphabet, unpadded.
std::string base64(std::string_view bytes);
/// URL-safe, unpadded: event ids of room version 4 and later (E3).
std::string base64_url(std::string_view bytes);
/// Accepts padded and unpadded (C7), nothing else; nothing if it is broken.
std::optional<std::string> unbase64(std::string_view text);

/// SHA-256, 32 raw bytes.
std::string sha256(std::string_view bytes);

/// libsodium is ready after this; called once at start of each program. Throws std::runtime_error.
void start_crypto();

/// An Ed25519 signing key with its name. Copies share nothing secret outside this object; the seed is wiped at the end.
class signing_key {
public:
  /// Synapse's file format: "ed25519 <version> <unpadded base64 seed>", the first line that isn't empty. Throws
  /// std::runtime_error with a sentence (K2: version of [a-zA-Z0-9_]+).
  static signing_key from_file_text(std::string_view text);
  static signing_key from_seed(std::string version, std::string_view seed32);
  /// A fresh one; `version` like "a_AbCd".
  static signing_key generate();

  signing_key(const signing_key&) = default;
  signing_key& operator=(const signing_key&) = default;
  ~signing_key(); ///< wipes the seed

  const std::string& key_id() const { return key_id_; }     ///< "ed25519:<version>"
  std::string public_key() const;                           ///< unpadded base64
  std::string file_text() const;                            ///< one line with its end
  std::string sign(std::string_view bytes) const;           ///< unpadded base64 of 64 bytes

private:
  signing_key(std::string version, std::string_view seed32);
  std::string version_, key_id_;
  std::array<unsigned char, 64> secret_{};
};

/// True if `signature` (base64) over `bytes` is by `public_key` (base64 of 32 bytes); false also if either is broken.
bool verify_signature(std::string_view public_key, std::string_view signature, std::string_view bytes);

/// Signs a JSON object (C5): `signatures` and `unsigned` are left out of what is signed and kept in the result, ours is
/// added under signatures[entity][key id]. Gives canonical JSON. Throws json_problem.
std::string sign_json(std::string_view object, std::string_view entity, const signing_key& key);

} // namespace ranvier
