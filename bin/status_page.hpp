#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace ranvier {

/// The status page as HTML: the same facts as `status`, `ls --state closed`, `shape`, partial joins and stale users.
/// Complete without JavaScript (it then loads itself anew), live with it, dark and light as the reader's system is, and
/// without any other file. Pure. `facts`: stats, closed, shape, partial_joins, stale_users, each as the API answers it.
/// `whole` false: only the inside, which changes.
std::string status_page(const nlohmann::json& facts, std::int64_t now_ms, bool whole);

} // namespace ranvier
