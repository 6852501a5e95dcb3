#pragma once
#include <string>
#include <string_view>

namespace ranvier {

/// The bearer token in `path`; made (32 random bytes, mode 0600) if the file is missing or empty. Throws
/// std::runtime_error with a sentence if it can be neither read nor made.
std::string load_or_make_token(const std::string& path);

/// Compares secrets in a time that doesn't depend on where they differ.
bool same_secret(std::string_view given, std::string_view expected);

/// The token of an Authorization header of the form "Bearer <token>", or empty.
std::string_view bearer_token(std::string_view authorization);

} // namespace ranvier
