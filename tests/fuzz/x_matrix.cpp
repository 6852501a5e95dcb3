// libFuzzer: a header is malformed, with a sentence, or is read the same after we have written what we read.
#include "messages/x_matrix.hpp"

#include <cstdint>
#include <cstdlib>

using namespace ranvier;

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto key = signing_key::from_seed("fuzz", std::string(32, 'f'));
  const std::string header(reinterpret_cast<const char*>(data), size);
  for (const auto& text : {header, "X-Matrix " + header}) {
    const auto read = parse_x_matrix(text);
    expect(read.problem.empty() == !read.origin.empty());
    if (!read.problem.empty()) continue;
    const auto again = parse_x_matrix(x_matrix_header("GET", "/", read.origin, read.destination, "", key));
    expect(again.problem.empty() && again.origin == read.origin && again.destination == read.destination);
    expect(again.key_id == key.key_id());
  }
  return 0;
}
