#include "messages/signing.hpp"

#include "messages/canonical_object.hpp"
#include "messages/signatures.hpp"

#include <openssl/sha.h>
#include <sodium.h>

#include <algorithm>
#include <stdexcept>

namespace ranvier {

namespace {

constexpr std::size_t seed_bytes = crypto_sign_SEEDBYTES;
static_assert(crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_SEEDBYTES == 32);

const unsigned char* raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

std::string encoded(const unsigned char* bytes, std::size_t size, int variant) {
  std::string out(sodium_base64_ENCODED_LEN(size, variant), '\0');
  sodium_bin2base64(out.data(), out.size(), bytes, size, variant);
  out.pop_back(); // the terminating NUL, which the length counts
  return out;
}

/// The six bits of a character of the standard alphabet, -1 for any other.
int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

bool is_key_version(std::string_view version) {
  return !version.empty() && std::all_of(version.begin(), version.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The next word of the line, which is shortened by it.
std::string_view take_word(std::string_view& line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  const auto end = static_cast<std::size_t>(std::find_if(line.begin(), line.end(), is_space) - line.begin());
  const auto word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::string_view first_line_with_words(std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    if (!std::all_of(line.begin(), line.end(), is_space)) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

} // namespace

std::string base64(std::string_view bytes) {
  return encoded(raw(bytes), bytes.size(), sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

std::string base64_url(std::string_view bytes) {
  return encoded(raw(bytes), bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

std::optional<std::string> unbase64(std::string_view text) {
  // By hand, because libsodium refuses bits that are left over at the end if they aren't zero, and the specification's
  // own signing seed (V8) has such.
  if (text.size() % 4 == 0) {
    for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xFF);
  }
  return out;
}

std::string sha256(std::string_view bytes) {
  std::string out(SHA256_DIGEST_LENGTH, '\0');
  SHA256(raw(bytes), bytes.size(), reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

void start_crypto() {
  if (sodium_init() < 0) throw std::runtime_error("The cryptography library libsodium could not be started.");
}

signing_key::signing_key(std::string version, std::string_view seed32)
    : version_(std::move(version)), key_id_("ed25519:" + version_) {
  if (!is_key_version(version_))
    throw std::runtime_error("The version of a signing key must be letters, digits and underscores; it is \"" +
                             version_ + "\".");
  if (seed32.size() != seed_bytes) throw std::runtime_error("The seed of a signing key must be 32 bytes.");
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> unused;
  crypto_sign_seed_keypair(unused.data(), secret_.data(), raw(seed32));
}

signing_key::~signing_key() { sodium_memzero(secret_.data(), secret_.size()); }

signing_key signing_key::from_file_text(std::string_view text) {
  auto line = first_line_with_words(text);
  const auto algorithm = take_word(line), version = take_word(line), seed_text = take_word(line);
  if (algorithm != "ed25519" || seed_text.empty() || !take_word(line).empty())
    throw std::runtime_error("The signing key's file must hold one line: ed25519 VERSION SEED.");
  auto seed = unbase64(seed_text);
  if (!seed || seed->size() != seed_bytes)
    throw std::runtime_error("The seed in the signing key's file must be the base64 of 32 bytes.");
  signing_key key{std::string(version), *seed};
  sodium_memzero(seed->data(), seed->size());
  return key;
}

signing_key signing_key::from_seed(std::string version, std::string_view seed32) {
  return signing_key(std::move(version), seed32);
}

signing_key signing_key::generate() {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  start_crypto();
  std::string version = "a_";
  for (int i = 0; i < 4; ++i) version += letters[randombytes_uniform(static_cast<std::uint32_t>(letters.size()))];
  std::string seed(seed_bytes, '\0');
  randombytes_buf(seed.data(), seed.size());
  signing_key key(std::move(version), seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

std::string signing_key::public_key() const { // the second half of libsodium's secret key
  return encoded(secret_.data() + seed_bytes, crypto_sign_PUBLICKEYBYTES, sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

std::string signing_key::file_text() const {
  return "ed25519 " + version_ + " " +
         encoded(secret_.data(), seed_bytes, sodium_base64_VARIANT_ORIGINAL_NO_PADDING) + "\n";
}

std::string signing_key::sign(std::string_view bytes) const {
  std::array<unsigned char, crypto_sign_BYTES> signature;
  crypto_sign_detached(signature.data(), nullptr, raw(bytes), bytes.size(), secret_.data());
  return encoded(signature.data(), signature.size(), sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

bool verify_signature(std::string_view public_key, std::string_view signature, std::string_view bytes) {
  const auto key = unbase64(public_key), proof = unbase64(signature);
  if (!key || key->size() != crypto_sign_PUBLICKEYBYTES || !proof || proof->size() != crypto_sign_BYTES) return false;
  return crypto_sign_verify_detached(raw(*proof), raw(bytes), bytes.size(), raw(*key)) == 0;
}

std::string sign_json(std::string_view object, std::string_view entity, const signing_key& key) {
  const json_document document(object);
  canonical_object members(document.root(), numbers::strict);
  const auto signature =
      key.sign(members.only([](std::string_view name) { return name != "signatures" && name != "unsigned"; }));
  members.set("signatures", signatures_with(document.root(), entity, key.key_id(), signature, numbers::strict));
  return members.whole();
}

} // namespace ranvier
