#pragma once

namespace ranvier {

/// `ranvier demo`: an engine, homeservers and a host, all on loopback. 0 only if every server got what it is owed, 1 if
/// not or if it was interrupted. Leaves nothing behind.
int run_demo();

} // namespace ranvier
