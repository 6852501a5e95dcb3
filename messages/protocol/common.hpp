#pragma once
#include "messages/log_entry.hpp"
#include "messages/protocol/local.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <string>

namespace ranvier {

/// Any actor's answer to "what are you doing?": a JSON object. See docs/ACTORS.md for the members that all have.
struct describe {
  bool brief = false; ///< true: only what the actor has at hand, without asking others
  template <class I> friend typename I::result_type inspect(I& f, describe& x) {
    return f(caf::meta::type_name("describe"), x.brief);
  }
};
struct description {
  std::string json;
  template <class I> friend typename I::result_type inspect(I& f, description& x) {
    return f(caf::meta::type_name("description"), x.json);
  }
};

/// A write was made durable (or a request was carried out).
struct done {
  bool ok = true;
  std::string problem; ///< why not, in a sentence
  template <class I> friend typename I::result_type inspect(I& f, done& x) {
    return f(caf::meta::type_name("done"), x.ok, x.problem);
  }
};

/// What every actor answers.
using describable = caf::typed_actor<caf::replies_to<describe>::with<description>>;

} // namespace ranvier
