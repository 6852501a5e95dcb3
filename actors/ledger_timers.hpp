#pragma once
#include <caf/all.hpp>

namespace ranvier {

// What the ledger says to itself.

/// Commit what was asked so far.
struct write_now {
  template <class I> friend typename I::result_type inspect(I& f, write_now&) {
    return f(caf::meta::type_name("write_now"));
  }
};
/// Write the acks that were gathered.
struct write_acks {
  template <class I> friend typename I::result_type inspect(I& f, write_acks&) {
    return f(caf::meta::type_name("write_acks"));
  }
};
/// Writing fails: see whether it works again.
struct write_trial {
  template <class I> friend typename I::result_type inspect(I& f, write_trial&) {
    return f(caf::meta::type_name("write_trial"));
  }
};
/// A step of making the log small.
struct compact_log {
  template <class I> friend typename I::result_type inspect(I& f, compact_log&) {
    return f(caf::meta::type_name("compact_log"));
  }
};

} // namespace ranvier
