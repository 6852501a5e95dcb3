#include "bin/certificate.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>

#include <memory>
#include <stdexcept>

namespace ranvier {

namespace {

template <class T, void (*Free)(T*)> struct freed {
  void operator()(T* it) const { Free(it); }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed<EVP_PKEY, EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed<X509, X509_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed<X509_EXTENSION, X509_EXTENSION_free>>;
using bio_ptr = std::unique_ptr<BIO, freed<BIO, BIO_free_all>>;

void must(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("a certificate can't be made: ") + what);
}

bool is_address(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 || inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

void extend(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  extension_ptr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  must(extension && X509_add_ext(certificate, extension.get(), -1) == 1, OBJ_nid2sn(nid));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  auto size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

} // namespace

own_certificate make_certificate(const std::vector<std::string>& names) {
  key_ptr key(EVP_EC_gen("P-256"));
  certificate_ptr certificate(X509_new());
  must(key && certificate && !names.empty(), "no key");
  unsigned char serial[8];
  must(RAND_bytes(serial, sizeof serial) == 1, "no random number");
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and never short
  std::unique_ptr<BIGNUM, freed<BIGNUM, BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  must(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr, "serial number");
  X509_set_version(certificate.get(), 2);
  // A day back: the clocks of the two sides need not agree.
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -86'400);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 10L * 365 * 86'400);
  auto* subject = X509_get_subject_name(certificate.get());
  const auto* title = reinterpret_cast<const unsigned char*>("ranvier sink");
  must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, title, -1, -1, 0) == 1, "subject");
  must(X509_set_issuer_name(certificate.get(), subject) == 1, "issuer");
  must(X509_set_pubkey(certificate.get(), key.get()) == 1, "public key");
  std::string alternatives;
  for (const auto& name : names)
    alternatives += (alternatives.empty() ? "" : ",") + std::string(is_address(name) ? "IP:" : "DNS:") + name;
  extend(certificate.get(), NID_subject_alt_name, alternatives);
  extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  must(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "signature");

  bio_ptr certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_mem()));
  must(PEM_write_bio_X509(certificate_text.get(), certificate.get()) == 1, "PEM");
  must(PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1, "PEM");
  return {text_of(certificate_text.get()), text_of(key_text.get())};
}

} // namespace ranvier
