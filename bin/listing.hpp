#pragma once
#include "bin/cli_verbs.hpp"
#include "bin/table.hpp"

#include <functional>

namespace ranvier {

/// JSON as a verb writes it; `indent` -1: in one line.
std::string dumped(const nlohmann::json& value, int indent);

/// A listing verb's output. `member` is the list's name in -o json; `of` how many there are in all, if `rows` are only
/// the first of them. Throws cli_failure for an unknown column.
void print_list(std::vector<nlohmann::json> rows, const std::vector<column>& columns, const listing_options& how,
                const char* member, std::int64_t of = 0);

/// An object of -o json, or words.
void print_answer(const nlohmann::json& answer, const std::string& output,
                  const std::function<std::string(const screen&)>& words);

/// The list that an answer must have. Throws cli_failure (70) if it hasn't.
std::vector<nlohmann::json> list_of(nlohmann::json answer, const char* member);

/// Once, or with --watch again and again until standard output is closed; on a terminal each picture replaces the one
/// before it.
int watched(const listing_options& how, const std::function<int()>& once);

} // namespace ranvier
