#pragma once
#include "messages/protocol/common.hpp"

namespace ranvier {

/// There are new items in the host's stream: whoever waits for them reads again. Harmless if there are none.
struct stream_advanced {
  template <class I> friend typename I::result_type inspect(I& f, stream_advanced&) {
    return f(caf::meta::type_name("stream_advanced"));
  }
};
/// Whoever makes stream items durable tells the ingress so through this handle.
using stream_listener = caf::typed_actor<caf::reacts_to<stream_advanced>>;

} // namespace ranvier
