"""What appending costs: the same on disk whatever the number of destinations (DESIGN 4 and 9.5)."""
from __future__ import annotations

import sqlite3

from rig import Engine, HostRoom, Rig, case, check, equal, user


def rows(engine: Engine) -> dict[str, int]:
    """Rows of every table, read beside the running engine."""
    path = next(p for p in engine.data.iterdir() if p.is_file() and p.read_bytes()[:15] == b"SQLite format 3")
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        names = [n for n, in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        return {n: database.execute(f'SELECT count(*) FROM "{n}"').fetchone()[0] for n in names}
    finally:
        database.close()


def wal_bytes(engine: Engine) -> int:
    return sum(p.stat().st_size for p in engine.data.iterdir() if p.name.endswith("-wal"))


@case("cost-one-row-for-1000-destinations", timeout=90, weight=2)
async def one_row(rig: Rig) -> None:
    """100 events for 1,000 servers make 100 rows in the log, and as many in all tables as 100 events for one server."""
    grown = {}
    for count in (1, 1000):
        engine = rig.make_engine()
        engine.config["federation"]["deny"] = ["*"]  # so that only appending is seen, no delivery
        await engine.start()
        room = HostRoom(engine, *(f"@bob:s{n}.example.org" for n in range(count)), user(engine))
        await engine.feed(*room.roster())
        before, wal = rows(engine), wal_bytes(engine)
        for _ in range(10):
            await engine.feed(*room.messages(user(engine), 10))
        after = rows(engine)
        grown[count] = {n: after[n] - before.get(n, 0) for n in after if after[n] != before.get(n, 0)}
        rig.notes.append(f"{count} servers: rows {grown[count]}, WAL +{wal_bytes(engine) - wal} bytes")
        await engine.close()
    equal(grown[1000], grown[1], "the rows that 100 events added")
    check(100 in grown[1000].values(), f"no table grew by 100 rows: {grown[1000]}")
    check(max(grown[1000].values()) <= 200, f"a table grew by more than two rows an event: {grown[1000]}")
