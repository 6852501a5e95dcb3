#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ranvier {

/// Immutable text that many actors may hold at once without copying it: an event's canonical JSON, a transaction's
/// bytes, an answer's body. Empty and absent are the same. Safe to pass between threads.
class shared_text {
public:
  shared_text() = default;
  shared_text(std::string text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}

  const std::string& str() const {
    static const std::string nothing;
    return text_ ? *text_ : nothing;
  }
  std::string_view view() const { return str(); }
  std::size_t size() const { return text_ ? text_->size() : 0; }
  bool empty() const { return !text_; }

  template <class Inspector> friend typename Inspector::result_type inspect(Inspector& f, shared_text& x) {
    // Over a wire the text travels as a string (DESIGN section 12); in one process only the pointer is copied.
    std::string text = x.str();
    if constexpr (std::is_void_v<typename Inspector::result_type>) {
      f(text);
    } else {
      auto result = f(text);
      if constexpr (Inspector::writes_state) x = shared_text(std::move(text));
      return result;
    }
  }

private:
  std::shared_ptr<const std::string> text_;
};

} // namespace ranvier
