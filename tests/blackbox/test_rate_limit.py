"""429: slow down as told, the same transaction again, no growing streak (B89; PROTOCOL T8, T9)."""
from __future__ import annotations

from typing import Any

from rig import Rig, case, check, equal, has, user
from test_gate import failing_or_limited, start


def _register(name: str, shortest: float, longest: float, says: str, body: Any = None,
              headers: dict[str, str] | None = None, streak: int = 0) -> None:
    async def run(rig: Rig) -> None:
        engine, peer, room = await start(rig, backoff={"first": "1s", "max": "10s"})
        limited = {"errcode": "M_LIMIT_EXCEEDED", "error": "slow down"}
        peer.answer("/send/", 429, {**limited, **(body or {})}, headers=headers, times=2)
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        gate = await failing_or_limited(engine, peer)
        equal([gate["last_error"]["class"], gate["consecutive_failures"]], ["rate_limited", streak], "class and streak")
        await has(peer, records, 2 * longest + 6)
        times = [t.at for t in peer.transactions]
        equal(len({(t.txn_id, t.raw) for t in peer.transactions}), 1, "ids and bodies")
        for a, b in zip(times, times[1:]):
            check(shortest - 0.15 <= b - a <= longest + 1.5, f"a wait was {b - a:.2f} s, not {shortest:g}-{longest:g}")
        equal((await engine.gate(peer.name))["consecutive_failures"], 0, "the streak afterwards")
    run.__doc__ = says
    run.__module__ = __name__
    case(f"B89_{name}", timeout=60)(run)


_register("retry_after_ms", 3, 3.5, "retry_after_ms in the body is obeyed.", {"retry_after_ms": 3000})
_register("retry_after_header", 3, 3.5, "The header Retry-After, in seconds, is obeyed.", headers={"Retry-After": "3"})
_register("both_the_longer_counts", 3, 3.5, "Header and body: the longer counts.", {"retry_after_ms": 1000},
          {"Retry-After": "3"})
for _name, _value in (("absurd", 10**12), ("negative", -1), ("word", "abc"), ("float", 1.5e300), ("none", None)):
    _register(f"odd_{_name}", 1, 10, f"retry_after_ms {_value!r}: a wait between 1 s and the cap.",
              {"retry_after_ms": _value})
_register("missing", 1, 10, "No hint at all: a wait between 1 s and the cap.")
_register("date_in_the_past", 1, 10, "A Retry-After date long past: a wait between 1 s and the cap.",
          headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})


@case("B89_nothing_meanwhile")
async def nothing_meanwhile(rig: Rig) -> None:
    """While a server has asked for patience, new events make no request."""
    engine, peer, room = await start(rig)
    peer.answer("/send/", 429, {"errcode": "M_LIMIT_EXCEEDED", "error": "x", "retry_after_ms": 4000}, times=1)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await failing_or_limited(engine, peer)
    more = room.messages(user(engine), 5)
    for record in more:
        await engine.feed(record)
    equal(len(peer.transactions), 1, "attempts")
    await has(peer, records + more, 8)
    check(peer.transactions[1].at - peer.transactions[0].at >= 3.85, "it did not wait the 4 s")
