#pragma once
#include <caf/allowed_unsafe_message_type.hpp>

#include <memory>

namespace ranvier {

/// A message body that is handed over inside one process without being copied: `local<T>` may carry any T (variants,
/// move-only members). Only for conversations that never leave the process (ingress, ledger, reader, egress); what
/// supervisor and destinations say to each other are plain values with `inspect` (DESIGN section 12).
template <class T> struct local {
  std::shared_ptr<const T> value;
  const T& operator*() const { return *value; }
  const T* operator->() const { return value.get(); }
};

template <class T> local<T> make_local(T value) { return {std::make_shared<const T>(std::move(value))}; }

} // namespace ranvier

namespace caf {
template <class T> struct allowed_unsafe_message_type<ranvier::local<T>> : std::true_type {};
} // namespace caf
