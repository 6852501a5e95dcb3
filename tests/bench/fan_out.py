#!/usr/bin/python3
"""Fan-out of events to many simulated peers over TLS: transactions a second, the engine's own CPU, its peak memory.

    fan_out.py [--peers 300] [--single 40] [--burst 1000]

Two loads: `single` events, each fed when all peers have the one before (one transaction a peer and event), and a
`burst` fed at once (transactions of up to 50). The peers run in a process of their own. As a measure of this machine a
plain Python client sends what a `single` transaction is to the same peers; the ratio to it is printed too.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import ssl
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))
os.environ.setdefault("RANVIER_BIN", str(HERE.parents[1] / "build" / "release" / "ranvier"))

import aiohttp  # noqa: E402

from rig import Authority, Engine, HostRoom, Json, Rig, free_port, matrix, user  # noqa: E402
from rig.process import die_with_parent, kill_group  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of the process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid: int) -> float:
    line = next(n for n in Path(f"/proc/{pid}/status").read_text().splitlines() if n.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


class Peers:
    """The process of light peers, named 127.10.x.y:PORT."""

    def __init__(self, authority: Authority, count: int) -> None:
        self.port = free_port("0.0.0.0")
        self.addresses = [f"127.10.{n >> 7}.{n & 127 | 1 << 7}" for n in range(count)]
        self.names = [f"{a}:{self.port}" for a in self.addresses]
        self.certificate = authority.certificate("bench", self.addresses)
        self.key = authority.key_file

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", str(HERE / "light_peer.py"), str(self.port), str(self.certificate), str(self.key),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            preexec_fn=die_with_parent)
        await self._line()

    async def _line(self) -> Json:
        assert self.process.stdout
        return json.loads(await self.process.stdout.readline())

    async def count(self) -> Json:
        assert self.process.stdin
        self.process.stdin.write(b"count\n")
        return await self._line()

    async def until_least(self, pdus: int, within: float) -> Json:
        """Waits until each peer has that many PDUs."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            tally = await self.count()
            if tally["least"] >= pdus and tally["addresses"] == len(self.names):
                return tally
            await asyncio.sleep(0.005)
        raise SystemExit(f"the peers don't have {pdus} PDUs each within {within:g} s: {await self.count()}")

    def stop(self) -> None:
        kill_group(self.process.pid)


class Meter:
    """What one load took."""

    def __init__(self, engine: Engine, peers: Peers) -> None:
        self.engine, self.peers = engine, peers

    async def begin(self) -> None:
        assert self.engine.process
        self.pid = self.engine.process.pid
        self.tally, self.cpu, self.at = await self.peers.count(), cpu_seconds(self.pid), time.monotonic()

    async def end(self, what: str) -> Json:
        took, cpu = time.monotonic() - self.at, cpu_seconds(self.pid) - self.cpu
        now = await self.peers.count()
        transactions = now["transactions"] - self.tally["transactions"]
        out = {"load": what, "transactions": transactions, "pdus": now["pdus"] - self.tally["pdus"],
               "seconds": round(took, 2), "transactions_per_s": round(transactions / took),
               "engine_cpu_s_per_1000": round(1000 * cpu / transactions, 3), "peak_mib": round(peak_mib(self.pid), 1),
               "connections": now["connections"] - self.tally["connections"]}
        print(json.dumps(out), flush=True)
        return out


async def reference(peers: Peers, authority: Authority, body: bytes, rounds: int) -> float:
    """CPU seconds that a plain Python client needs for 1,000 such transactions to the same peers."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    used = resource.getrusage(resource.RUSAGE_SELF)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as client:
        async def one(name: str) -> None:
            async with client.put(f"https://{name}/_matrix/federation/v1/send/x", data=body) as got:
                await got.read()
        for _ in range(rounds):
            await asyncio.gather(*(one(n) for n in peers.names))
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return 1000 * cpu / (rounds * len(peers.names))


async def run(options: argparse.Namespace) -> None:
    authority = Authority("bench CA")
    rig = Rig(authority)
    await rig.begin()
    peers = Peers(authority, options.peers)
    try:
        await peers.start()
        engine = await rig.engine(delivery={"max_new_connections_per_second": 5000})
        room = HostRoom(engine, *(f"@bob:{n}" for n in peers.names), user(engine))
        await engine.feed(*room.roster())
        meter = Meter(engine, peers)
        await meter.begin()
        done = 1
        await engine.feed(*room.messages(user(engine), 1))
        await peers.until_least(done, 60)
        await meter.end("first contact")
        await meter.begin()
        for _ in range(options.single):
            done += 1
            await engine.feed(*room.messages(user(engine), 1))
            await peers.until_least(done, 60)
        single = await meter.end("single")
        await meter.begin()
        done += options.burst
        await engine.feed(*room.messages(user(engine), options.burst))
        await peers.until_least(done, 300)
        await meter.end("burst")
        body = matrix.canonical({"origin": engine.name, "origin_server_ts": 1, "edus": [],
                                 "pdus": [room.event(user(engine))]})
        plain = await reference(peers, authority, body, 10)
        print(json.dumps({"load": "plain Python client", "cpu_s_per_1000": round(plain, 3),
                          "engine_to_plain": round(single["engine_cpu_s_per_1000"] / plain, 2)}), flush=True)
    finally:
        peers.stop()
        await rig.end(False)
        authority.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=300)
    parser.add_argument("--single", type=int, default=40)
    parser.add_argument("--burst", type=int, default=1000)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
