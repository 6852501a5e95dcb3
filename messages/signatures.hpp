#pragma once
#include "messages/canonical_json.hpp"

#include <string>
#include <string_view>

namespace ranvier {

/// The member `signatures` of `object` as canonical JSON, with one more signature; others are kept (C5). Throws
/// json_problem if the member isn't an object of objects.
std::string signatures_with(simdjson::dom::element object, std::string_view entity, std::string_view key_id,
                            std::string_view signature, numbers rule);

} // namespace ranvier
