#pragma once
#include "messages/signing.hpp"

namespace ranvier {

/// The specification's signing key (V8).
inline signing_key spec_key() {
  return signing_key::from_file_text("ed25519 1 YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1\n");
}

} // namespace ranvier
