"""The engine under a service manager: sd_notify, the watchdog, SIGHUP, and what Prometheus is told (issue 6)."""
from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
from pathlib import Path

from rig import Engine, HostRoom, Rig, case, check, equal, failing, matrix, typing, until, until_async, user
from test_inbound import event, message, pair


class Manager:
    """What systemd hears: the datagrams on NOTIFY_SOCKET."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.setblocking(False)
        self.heard: list[str] = []

    def env(self, watchdog_ms: int) -> dict[str, str]:
        return {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(watchdog_ms * 1000)}

    def count(self, word: str) -> int:
        while True:
            try:
                self.heard.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return sum(word in text.splitlines() for text in self.heard)


def log(engine: Engine) -> str:
    return engine.log_file.read_text()


@case("service-notify-and-watchdog")
async def notify(rig: Rig) -> None:
    """READY=1 when it is ready, WATCHDOG=1 at least twice in each interval, STOPPING=1 at the end."""
    engine = rig.make_engine()
    manager = Manager(engine.folder)
    await engine.start(env=manager.env(1000))
    await until(lambda: manager.count("READY=1") == 1, 5, "READY=1")
    seen = manager.count("WATCHDOG=1")
    await asyncio.sleep(3)
    fed = manager.count("WATCHDOG=1") - seen
    check(4 <= fed <= 8, f"WATCHDOG=1 came {fed} times within 3 s, with a watchdog of 1 s")
    equal(manager.count("STOPPING=1"), 0, "STOPPING=1 while it runs")
    await engine.stop()
    equal(manager.count("STOPPING=1"), 1, "STOPPING=1 at the end")


@case("service-no-watchdog")
async def without(rig: Rig) -> None:
    """Without WATCHDOG_USEC nothing is fed; without NOTIFY_SOCKET it runs as ever."""
    engine = rig.make_engine()
    manager = Manager(engine.folder)
    env = manager.env(0)
    del env["WATCHDOG_USEC"]
    await engine.start(env=env)
    await asyncio.sleep(1)
    equal([manager.count("READY=1"), manager.count("WATCHDOG=1")], [1, 0], "READY=1 and WATCHDOG=1")


@case("service-full-disk-is-fed", timeout=60)
async def locked(rig: Rig) -> None:
    """A database that can't be written is no reason to be killed: the ledger answers, /readyz says why, it is fed."""
    engine = rig.make_engine()
    manager = Manager(engine.folder)
    await engine.start(env=manager.env(1000))
    other = sqlite3.connect(engine.data / "ranvier.db", isolation_level=None, timeout=20)
    other.execute("BEGIN IMMEDIATE")
    try:
        status, _ = await engine.feed_lines(['{"kind":"room_forgotten","room_id":"!r:x.test"}'], timeout=40)
        seen = manager.count("WATCHDOG=1")
        await until(lambda: manager.count("WATCHDOG=1") >= seen + 2, 15, "the watchdog is fed")
        check(status in (0, 200, 503), f"the feed was answered {status}")
        check(engine.running, "the engine ended")
    finally:
        other.execute("ROLLBACK")
        other.close()


def hup(engine: Engine) -> None:
    assert engine.process
    os.kill(engine.process.pid, signal.SIGHUP)


@case("service-reload")
async def reload(rig: Rig) -> None:
    """SIGHUP: each change is said with both values and when it counts; the level counts at once; nothing else does."""
    engine = await rig.engine(log={"level": "info"})
    engine.config["log"]["level"] = "debug"
    engine.config["backoff"]["max"] = "2h"
    engine.write_config()
    hup(engine)
    await until(lambda: "reloaded changes=2" in log(engine), 5, "two changes")
    lines = [line for line in log(engine).splitlines() if "configuration_changed" in line]
    check('key=log.level from="\\"info\\"" to="\\"debug\\"" takes_effect=now' in lines[0], f"it says {lines[0]}")
    check('key=backoff.max from="\\"1d\\"" to="\\"2h\\"" takes_effect="at the next start"' in lines[1],
          f"it says {lines[1]}")
    hup(engine)
    await until(lambda: "reloaded changes=1" in log(engine), 5, "what needs a start is said again, the level isn't")
    equal((await engine.host_raw("GET", "/readyz", token=""))[0], 200, "/readyz")


@case("service-reload-of-a-bad-file")
async def bad(rig: Rig) -> None:
    """A file that can't be used is refused with its mistakes, and the engine goes on as it was."""
    engine = await rig.engine()
    engine.config_file.write_text(engine.config_file.read_text() + "\n[backof]\nfirst = \"1s\"\n")
    hup(engine)
    await until(lambda: "reload_refused" in log(engine), 5, "a refusal")
    check("backof" in log(engine) and "did you mean" in log(engine), f"it says {engine.log_tail()}")
    engine.config_file.unlink()
    hup(engine)
    await until(lambda: log(engine).count("reload_refused") == 2, 5, "a refusal of a missing file")
    equal((await engine.host_raw("GET", "/readyz", token=""))[0], 200, "/readyz")
    equal(await engine.stop(), 0, "the exit status")


@case("B119_many_fail_alike", timeout=60)
async def alike(rig: Rig) -> None:
    """What the one alert of B119 is made of: how many servers fail, at which stage; 3 other failures don't hide it."""
    engine = await rig.engine(backoff={"first": "1h", "max": "1d"})
    peers = rig.peers(15)
    room = HostRoom(engine, *(p.user("bob") for p in peers), user(engine))
    await engine.feed(*room.roster())
    for peer in peers[:9]:
        peer.down("garbage")
    for peer in peers[9:12]:
        peer.answer("/send/", 503)
    await engine.feed(*room.messages(user(engine), 1))
    for peer in peers[:12]:
        await failing(engine, peer, 20)

    async def counted() -> bool:
        _, body = await engine.host_raw("GET", "/metrics", token="")
        text = body.decode() if isinstance(body, bytes) else str(body)
        return all(f"ranvier_destinations{row}" in text for row in (
            '_failing{stage="tls"} 9', '_failing{stage="answer"} 3', '_failing{stage="connect"} 0',
            '{state="open"} 3', '{state="closed"} 12'))
    await until_async(counted, 12, "9 that fail at stage tls, 3 at stage answer, 3 open")
    _, stats = await engine.admin("GET", "/stats")
    equal(stats["failing"], {"tls": 9, "answer": 3}, "failing in GET /stats")


@case("metrics-count-both-ways", timeout=60)
async def both_ways(rig: Rig) -> None:
    """What was fed, sent and received is counted, by outcome: accepted, skipped, rejected; ok, repeated, refused."""
    engine, peer, room, _ = await pair(rig)
    await engine.feed_lines([matrix.dumps(r) for r in [
        {**room.messages(user(engine), 1)[0], "source": "s", "seq": 5}, {**typing(room.room_id, user(engine)),
                                                                         "source": "s", "seq": 4}]] + ["{}"])
    for _ in range(2):
        await peer.send([event(peer, room)], [message(peer.user("bob"), user(engine), "m1")], txn_id="t",
                        origin_server_ts=1)
    await peer.request("PUT", "/_matrix/federation/v1/send/x", {"pdus": "none"})
    wanted = ['feed_records_total{outcome="accepted"} 3', 'feed_records_total{outcome="skipped"} 1',
              'feed_records_total{outcome="rejected"} 1', 'transactions_received_total{outcome="ok"} 1',
              'transactions_received_total{outcome="repeated"} 1', 'transactions_received_total{outcome="refused"} 1',
              'transactions_sent_total{outcome="ok"} 1', 'pdus_sent_total 1', 'pdus_received_total 2', 'ready 1']

    async def all_there() -> bool:
        _, body = await engine.host_raw("GET", "/metrics", token="")
        text = body.decode() if isinstance(body, bytes) else str(body)
        missing[:] = [w for w in wanted if f"ranvier_{w}\n" not in text]
        return not missing
    missing: list[str] = []
    try:
        await until_async(all_there, 10, "all counters")
    except AssertionError as problem:
        raise AssertionError(f"{problem}; missing are {missing}") from problem
