// libFuzzer: whatever the bytes are, canonical JSON is refused with json_problem or is a fixed point.
#include "messages/canonical_json.hpp"

#include <cstdint>
#include <cstdlib>

using namespace ranvier;

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const json_document document(text);
    const auto lenient = canonical_json(document.root(), numbers::lenient);
    expect(canonical_json(lenient, numbers::lenient) == lenient);
    const auto strict = canonical_json(document.root()); // throws for odd numbers
    expect(strict == lenient);
    expect(canonical_json(strict) == strict);
  } catch (const json_problem& problem) {
    expect(std::string_view(problem.what()).ends_with('.'));
  }
  return 0;
}
