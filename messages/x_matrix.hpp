#pragma once
#include "messages/signing.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ranvier {

/// The bytes that an X-Matrix signature is over (X1, X2): canonical JSON of method, uri, origin, destination and, if
/// `content` isn't empty, the content, which must already be canonical JSON.
std::string x_matrix_bytes(std::string_view method, std::string_view uri, std::string_view origin,
                           std::string_view destination, std::string_view content);

/// The Authorization header that we send (X3-X7).
std::string x_matrix_header(std::string_view method, std::string_view uri, std::string_view origin,
                            std::string_view destination, std::string_view content, const signing_key& key);

/// A header as it came (A1-A4). `problem` isn't empty if it is malformed.
struct x_matrix {
  std::string origin, destination, key_id, signature; ///< destination empty: absent (A4)
  std::string problem;
};
x_matrix parse_x_matrix(std::string_view header);

} // namespace ranvier
