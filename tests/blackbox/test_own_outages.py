"""Our own outages: time away, full and failing disks, limits of the machine, and an orderly end (DESIGN 3 and 5)."""
from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import time
from typing import Any

import aiohttp
from yarl import URL

from rig import (Engine, Json, Peer, Rig, binary, case, check, equal, has, ids_of, matrix, run_command, until,
                 until_async)
from rig import to_device, user
from test_inbound import event, pair


async def asked(rig: Rig, method: str, url: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, Any, str]:
    """Status, body text and Retry-After."""
    connector = aiohttp.TCPConnector(ssl=rig.authority.client_context(), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        async with client.request(method, URL(url, encoded=True), data=data, headers=headers) as got:
            return got.status, (await got.read()).decode(), got.headers.get("Retry-After", "")


async def feed_answer(rig: Rig, engine: Engine, *records: Json) -> tuple[int, Any, str]:
    lines = "\n".join(matrix.dumps(r) for r in records) + "\n"
    return await asked(rig, "POST", engine.host_url + "/_ranvier/v1/feed", lines.encode(),
                       {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {engine.token()}"})


async def send_answer(rig: Rig, engine: Engine, peer: Peer, pdus: list[Json]) -> tuple[int, Any, str]:
    uri = f"/_matrix/federation/v1/send/{matrix.unique('t')}"
    body = {"origin": peer.name, "origin_server_ts": matrix.now_ms(), "pdus": pdus, "edus": []}
    header = matrix.x_matrix(peer.key, "PUT", uri, peer.name, engine.name, body)
    return await asked(rig, "PUT", rig.net.base_of(engine.name) + uri, matrix.canonical(body),
                       {"Authorization": header, "Content-Type": "application/json", "Host": engine.name})


async def readiness(rig: Rig, engine: Engine) -> tuple[int, Any]:
    return await rig.net.http("GET", engine.host_url + "/readyz", None, {}, 5)


def no_file_grows(engine: Engine, on: bool) -> None:
    """Every write of the engine fails, or works again: as if the disk were full, without needing one."""
    assert engine.process
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(engine.process.pid, resource.RLIMIT_FSIZE, (1 if on else unlimited, unlimited))


def empties(peer: Peer) -> int:
    return sum(not t.pdus and not t.edus for t in peer.transactions)


# --- full and failing disks -------------------------------------------------------------------------------------------

async def disk_trouble(rig: Rig, engine: Engine, break_disk: Any, mend_disk: Any) -> None:
    """What must hold whatever kind of trouble it is. The engine runs and is ready."""
    peer, slow = rig.peers(2)
    room = await rig.shared(engine, peer, slow)
    hold = slow.hold("/send/")
    early = room.messages(user(engine), 120)  # three transactions: one in flight, the others in memory
    await engine.feed(*early)
    await has(peer, early)
    await until(lambda: hold.arrived, 5, "a transaction in flight")
    await asyncio.sleep(1.5)
    break_disk()
    late = room.messages(user(engine), 3)
    status, body, again = await feed_answer(rig, engine, *late)
    equal(status, 503, f"feed on a broken disk ({body[:200]})")
    check(again.isdigit() and int(again) > 0, f"Retry-After of the feed is {again!r}")
    inbound = event(peer, room, "inbound")
    status, body, again = await send_answer(rig, engine, peer, [inbound])
    equal(status, 503, f"/send on a broken disk ({body[:200]})")
    check(again.isdigit() and int(again) > 0, f"Retry-After of /send is {again!r}")
    status, body = await readiness(rig, engine)
    equal(status, 503, "/readyz on a broken disk")
    check("database" in str(body) and "failed" in str(body), f"/readyz says {body}")
    hold.release()
    await has(slow, early, 10, "delivery of what is in memory")
    await asyncio.sleep(2)  # acks can't be written now
    equal(empties(peer), 0, "empty transactions")
    mend_disk()

    async def ready() -> bool:
        return (await readiness(rig, engine))[0] == 200
    await until_async(ready, 10, "/readyz after the disk is well again, by itself")
    equal((await feed_answer(rig, engine, *late))[0], 200, "feed afterwards")
    equal((await send_answer(rig, engine, peer, [inbound]))[0], 200, "/send afterwards")
    await has(peer, late)
    await has(slow, late)
    stream = rig.collector(engine)
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], [inbound], "the host's stream")
    await asyncio.sleep(1.5)
    marks = len(peer.transactions), len(slow.transactions)
    await engine.restart(kill=True)
    await asyncio.sleep(1.5)
    equal((len(peer.transactions), len(slow.transactions)), marks, "transactions after a restart: acks were caught up")
    for one in (peer, slow):
        equal(one.event_ids(), ids_of(early + late), f"what {one.name} has, once, in order")


@case("disk-refuses-writes", timeout=90, weight=2)
async def disk_refuses(rig: Rig) -> None:
    """All writes fail for a while: feed and /send answer 503 with Retry-After, what is in memory is delivered, /readyz
    says why, and it goes on by itself; nothing is lost or sent twice."""
    engine = await rig.engine()
    await disk_trouble(rig, engine, lambda: no_file_grows(engine, True), lambda: no_file_grows(engine, False))


def mounted(path: str, *options: str) -> bool:
    return subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "ranvier-test", path],
                          capture_output=True).returncode == 0


def unmount(path: str) -> None:
    subprocess.run(["umount", "-l", path], capture_output=True)


@case("disk-full", timeout=90, weight=2)
async def disk_full(rig: Rig) -> None:
    """The same on a file system that is really full (where this user may mount one; else it says so and is no test)."""
    engine = rig.make_engine()
    engine.data.mkdir()
    if not mounted(str(engine.data), "size=12m", "mode=700"):
        rig.notes.append("no file system of a test's own can be mounted here")
        print("note: disk-full needs the right to mount a tmpfs; disk-refuses-writes covers the rest")
        return
    filler = engine.data / "filler"

    def fill() -> None:
        with open(filler, "wb", buffering=0) as file:
            for size in (65536, 4096):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
    try:
        await engine.start()
        await disk_trouble(rig, engine, fill, filler.unlink)
    finally:
        await engine.kill9()
        unmount(str(engine.data))


# --- starts that can't be ---------------------------------------------------------------------------------------------

async def refused(engine: Engine, *words: str, through: tuple[str, ...] = ()) -> str:
    """A start that must end with 78; what it said."""
    engine.write_config()
    done = await run_command([*through, *binary(), "serve", "--config", str(engine.config_file), *words], timeout=20,
                             cwd=engine.folder)
    equal(done.code, 78, f"the exit status ({(done.out + done.err)[-300:]})")
    said = (done.out + done.err).strip()
    check(said, "nothing was said")
    check("terminate called" not in said, said[-300:])
    return said


@case("start-unusable-folder")
async def unusable_folder(rig: Rig) -> None:
    """A data folder that is a file, full, or read-only: 78 and a sentence that names the path."""
    engine = rig.make_engine()
    engine.data.write_text("I am a file")
    check(str(engine.data) in await refused(engine), "the sentence doesn't name the folder")
    engine.data.unlink()
    engine.data.mkdir()
    for options in (("size=64k", "mode=700"), ("ro", "mode=700")):
        if not mounted(str(engine.data), *options):
            return
        try:
            check(str(engine.data) in await refused(engine), f"the sentence doesn't name the folder ({options[0]})")
        finally:
            unmount(str(engine.data))


@case("start-second-engine")
async def second_engine(rig: Rig) -> None:
    """A second engine on the same data folder ends with 78 and says so; the first isn't disturbed."""
    engine = await rig.engine()
    check("lock" in await refused(engine), "the sentence doesn't name the lock")
    equal((await readiness(rig, engine))[0], 200, "the first engine's /readyz")
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records)


@case("start-newer-database")
async def newer_database(rig: Rig) -> None:
    """A database from a newer binary: 78 and a sentence; it is left as it was."""
    engine = await rig.engine()
    await engine.stop()
    path = engine.data / "ranvier.db"
    with sqlite3.connect(path) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {version + 1}")
    check("newer" in await refused(engine), "the sentence doesn't say that it is newer")
    with sqlite3.connect(path) as db:
        equal(db.execute("PRAGMA user_version").fetchone()[0], version + 1, "the schema's version")
        db.execute(f"PRAGMA user_version = {version}")
    await engine.start()


@case("start-few-descriptors", timeout=60)
async def few_descriptors(rig: Rig) -> None:
    """Too few descriptors: 78 and a sentence. Few: lower caps, said loudly, and all is delivered all the same."""
    engine = rig.make_engine(delivery={"max_in_flight": 512})
    said = await refused(engine, through=("prlimit", "--nofile=64:64"))
    check("64" in said and "128" in said, f"the sentence is {said[-200:]}")
    await engine.start(through=("prlimit", "--nofile=160:160"))
    log = engine.log_file.read_text()
    check("descriptor_limit_small" in log and "160" in log, f"nothing was said about the limit: {log[-300:]}")
    peers = rig.peers(60)
    room = await rig.shared(engine, *peers)
    records = room.messages(user(engine), 5)
    await engine.feed(*records)
    for peer in peers:
        await has(peer, records, 20)
    clients = [await asyncio.open_connection("127.0.0.1", engine.fed_port) for _ in range(100)]  # more than the cap
    more = room.messages(user(engine), 2)
    await engine.feed(*more)
    for peer in peers:
        await has(peer, more, 20)
    for _, writer in clients:
        writer.close()
    equal((await readiness(rig, engine))[0], 200, "/readyz afterwards")


# --- away and back ----------------------------------------------------------------------------------------------------

def age_heartbeat(engine: Engine, seconds: int) -> None:
    """As if it had been away for so much longer."""
    with sqlite3.connect(engine.data / "ranvier.db") as db:
        db.execute("UPDATE meta SET value = value - ? WHERE key = 'heartbeat_ms'", (seconds * 1000,))


@case("away-is-announced", timeout=60)
async def announced(rig: Rig) -> None:
    """After more than announce_after_outage away, servers that are owed nothing get one empty transaction; who was
    unreachable before isn't disturbed, and a start after a short while announces nothing."""
    engine = await rig.engine(backoff={"first": "1h", "max": "1h"})
    first, second, dead = rig.peers(3)
    await rig.shared(engine, first, second, dead)
    dead.down()
    await engine.feed(to_device(user(engine), "m1", {p.user("bob"): {"D": {}} for p in (first, second, dead)}))
    for peer in (first, second):
        await until(lambda: len(peer.transactions) == 1, 5, "the first transaction")
    await until(lambda: dead.refused, 5, "an attempt")
    await asyncio.sleep(1.5)
    await engine.restart(kill=True)
    await asyncio.sleep(2.5)
    equal([empties(first), empties(second)], [0, 0], "empty transactions after a short time away")
    await engine.stop()
    age_heartbeat(engine, 660)
    contacts = dead.contacts()
    await engine.start()
    for peer in (first, second):
        await until(lambda: empties(peer) == 1, 10, "the announcement")
    await asyncio.sleep(2)
    equal([len(first.transactions), len(second.transactions)], [2, 2], "transactions")
    equal(dead.contacts(), contacts, "contacts of the one whose gate is closed")


@case("away-isn't-announced-if-off")
async def not_announced(rig: Rig) -> None:
    """announce_after_outage = "0s": nothing is sent that nobody is owed."""
    engine = await rig.engine(delivery={"announce_after_outage": "0s"})
    peer = rig.peer(1)
    await rig.shared(engine, peer)
    await engine.feed(to_device(user(engine), "m1", {peer.user("bob"): {"D": {}}}))
    await until(lambda: len(peer.transactions) == 1, 5, "the first transaction")
    await asyncio.sleep(1.5)
    await engine.stop()
    age_heartbeat(engine, 86_400)
    await engine.start()
    await asyncio.sleep(2)
    equal(len(peer.transactions), 1, "transactions")


@case("host-away", timeout=90)
async def host_away(rig: Rig) -> None:
    """The host reads nothing while more comes than is kept: /send answers 503, peers keep it, and when the host is back
    everything arrives, once, in each peer's order."""
    engine, peer, room, stream = await pair(rig, limits={"stream_bytes": 100_000})
    other = rig.peer(2)
    await engine.feed(*[r for r in (await rig.shared(engine, other)).roster()])
    rooms = {peer.name: room, other.name: room}
    made: dict[str, list[Json]] = {}
    refusals = 0
    done = False

    async def insists(one: Peer) -> None:
        """A peer as it should be: the same transaction until it is taken."""
        nonlocal refusals
        for number in range(25):
            sent = event(one, rooms[one.name], f"{one.name}/{number} " + "x" * 6_000)
            txn = matrix.unique("t")
            while True:
                status, _ = await one.send([sent], txn_id=txn)
                if status == 200:
                    break
                equal(status, 503, "the answer when the host is away")
                refusals += 1
                await asyncio.sleep(0.3)
            made.setdefault(one.name, []).append(sent)

    senders = asyncio.gather(insists(peer), insists(other))
    await until(lambda: refusals >= 6, 20, "the limit")
    check(sum(map(len, made.values())) <= 20, "far more than stream_bytes was taken")
    await engine.restart(kill=True)
    before = refusals
    await until(lambda: refusals > before, 10, "a refusal after a restart: what was kept still counts")
    while not done:
        await stream.pull(300)
        done = senders.done()
    await senders
    await stream.settle(0.7)
    for one in (peer, other):
        equal([i["event"] for i in stream.of("pdu") if i["origin"] == one.name], made[one.name], "what the host got")


# --- the end ----------------------------------------------------------------------------------------------------------

@case("stop-acks-what-is-in-flight", timeout=60)
async def stop_acks(rig: Rig) -> None:
    """SIGTERM while a peer works on a transaction: its answer is waited for and acked durably, nothing new begins, no
    request is taken any more, exit 0; the next start repeats nothing and sends the rest."""
    engine = await rig.engine()
    peer, other = rig.peers(2)
    room = await rig.shared(engine, peer, other)
    hold = peer.hold("/send/", times=1)
    first, rest = room.messages(user(engine), 1), room.messages(user(engine), 60)
    await engine.feed(*first)
    await until(lambda: hold.arrived, 5, "a transaction in flight")
    await has(other, first)
    await engine.feed(*rest)
    await has(other, rest)
    await asyncio.sleep(1.2)
    begun = time.monotonic()
    stopping = asyncio.create_task(engine.stop(12))
    await asyncio.sleep(2)
    check(not stopping.done(), "it ended while a transaction was in flight")
    status, _ = await readiness(rig, engine)
    check(status in (0, 503), f"/readyz answers {status} while it stops")
    hold.release()
    equal(await stopping, 0, "the exit status")
    check(time.monotonic() - begun < 8, "the end took longer than the transaction")
    equal(len(peer.transactions), 1, "transactions before the end")
    marks = len(other.transactions)
    await engine.start()
    await has(peer, rest)
    equal(peer.event_ids(), ids_of(first + rest), "what the peer got, once, in order")
    check(all(t.txn_id != peer.transactions[0].txn_id for t in peer.transactions[1:]), "the transaction was repeated")
    equal(len(other.transactions), marks, "transactions to the one that had everything")


@case("stop-begins-nothing")
async def stop_begins_nothing(rig: Rig) -> None:
    """What waits for its turn to be sent when SIGTERM comes isn't sent any more; the next start sends it."""
    engine = await rig.engine(delivery={"max_new_connections_per_second": 2})
    peers = rig.peers(12)
    holds = [p.hold("/send/", times=1) for p in peers]
    room = await rig.shared(engine, *peers)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await until(lambda: sum(h.arrived for h in holds) >= 2, 10, "transactions in flight")
    stopping = asyncio.create_task(engine.stop(12))
    await asyncio.sleep(0.8)
    begun = sum(len(p.transactions) for p in peers)
    check(begun < len(peers), "the test was too slow: everything had begun")
    await asyncio.sleep(2)
    equal(sum(len(p.transactions) for p in peers), begun, "transactions that began after SIGTERM")
    for hold in holds:
        hold.release()
    equal(await stopping, 0, "the exit status")
    await engine.start()
    for peer in peers:
        await has(peer, records, 20)
        equal(len(peer.transactions), 1, "transactions of a peer")


@case("stop-waits-a-bounded-time")
async def stop_bounded(rig: Rig) -> None:
    """A peer that never answers is given 5 s, no more."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/")
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "a transaction in flight")
    begun = time.monotonic()
    equal(await engine.stop(12), 0, "the exit status")
    check(4 < time.monotonic() - begun < 9, f"it took {time.monotonic() - begun:.1f} s")


@case("stop-twice-is-at-once")
async def stop_twice(rig: Rig) -> None:
    """A second SIGTERM ends it at once; nothing is lost."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/")
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await until(lambda: hold.arrived, 5, "a transaction in flight")
    assert engine.process
    os.kill(engine.process.pid, signal.SIGTERM)
    await asyncio.sleep(0.7)
    check(engine.running, "it didn't wait for the transaction in flight")
    begun = time.monotonic()
    equal(await engine.stop(5), 0, "the exit status")
    check(time.monotonic() - begun < 1, f"it took {time.monotonic() - begun:.1f} s")
    peer.rules.clear()
    await engine.start()
    await has(peer, records)


@case("stop-with-a-waiting-host")
async def stop_waiting_host(rig: Rig) -> None:
    """A host that long-polls doesn't hold up the end."""
    engine = await rig.engine()
    poll = asyncio.create_task(engine.host("GET", "/stream?timeout_ms=30000", timeout=40))
    await asyncio.sleep(0.5)
    begun = time.monotonic()
    equal(await engine.stop(12), 0, "the exit status")
    check(time.monotonic() - begun < 5, f"it took {time.monotonic() - begun:.1f} s")
    await poll


@case("own-fault-status-70")
async def our_fault(rig: Rig) -> None:
    """Without the ledger there is no engine: a fault of ours ends the process with 70 and says why."""
    engine = await rig.engine()
    await engine.stop()
    with sqlite3.connect(engine.data / "ranvier.db") as database:
        database.execute("ALTER TABLE gate RENAME TO lost_gate")
    await engine.start(wait=False)
    assert engine.process
    equal(await asyncio.wait_for(engine.process.wait(), 20), 70, "the exit status")
    log = engine.log_file.read_text(errors="replace")
    check("ledger_failed" in log and "no such table: gate" in log, f"the log says why: {log[-300:]}")
    with sqlite3.connect(engine.data / "ranvier.db") as database:
        database.execute("ALTER TABLE lost_gate RENAME TO gate")
    await engine.start()
