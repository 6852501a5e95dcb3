#pragma once
#include "storage/database.hpp"

namespace ranvier::storage {

/// The number of the newest migration that this binary knows.
int schema_version();

/// Brings the schema to schema_version(), each step in its own transaction. Throws newer_database if the file is ahead
/// of this binary, error if a step fails (what was done before it stays, and is complete).
void migrate(database& db);

} // namespace ranvier::storage
