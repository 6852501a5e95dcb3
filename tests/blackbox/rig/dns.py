"""A scripted DNS server over UDP and TCP: what it doesn't know doesn't exist. Every question is recorded."""
from __future__ import annotations

import asyncio
import ipaddress
import struct
import time
from dataclasses import dataclass
from typing import Any

TYPES = {"A": 1, "CNAME": 5, "SOA": 6, "AAAA": 28, "SRV": 33}
NAMES = {v: k for k, v in TYPES.items()}
FAILURES = {"servfail": 2, "refused": 5}


@dataclass
class Question:
    at: float
    name: str
    kind: str
    tcp: bool


def wire_name(name: str) -> bytes:
    labels = [p for p in name.strip(".").split(".") if p]
    return b"".join(bytes([len(p)]) + p.encode() for p in labels) + b"\0"


class Dns:
    """`mode`, or a name's own: answer, servfail, refused, silent, truncate (over UDP: come by TCP)."""

    def __init__(self) -> None:
        self.mode = "answer"
        self.modes: dict[str, str] = {}
        self.negative_ttl: int | None = None  # seconds; None: no SOA
        self.delay = 0.0
        self.asked: list[Question] = []
        self.port = 0
        self.ip = "127.0.0.1"
        self._records: dict[tuple[str, str], list[tuple[bytes, int]]] = {}
        self._aliases: dict[str, tuple[str, int]] = {}
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.AbstractServer | None = None

    @property
    def at(self) -> str:
        return f"{self.ip}:{self.port}"

    async def start(self, ip: str = "127.0.0.1") -> "Dns":
        self.ip = ip
        loop = asyncio.get_running_loop()
        outer = self

        class Udp(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                outer._answer_udp(data, addr)

        while not self._tcp:
            self._udp, _ = await loop.create_datagram_endpoint(Udp, local_addr=(ip, 0))
            self.port = self._udp.get_extra_info("sockname")[1]
            try:
                self._tcp = await asyncio.start_server(self._serve_tcp, ip, self.port)
            except OSError:
                self._udp.close()  # the port is somebody's over TCP
        return self

    def close(self) -> None:
        for server in (self._udp, self._tcp):
            if server:
                server.close()

    # --- what it knows ---
    def add(self, kind: str, name: str, data: bytes, ttl: int) -> None:
        self._records.setdefault((name.lower(), kind), []).append((data, ttl))

    def a(self, name: str, *addresses: str, ttl: int = 300) -> None:
        for address in addresses:
            ip = ipaddress.ip_address(address)
            self.add("A" if ip.version == 4 else "AAAA", name, ip.packed, ttl)

    def srv(self, name: str, target: str, port: int, priority: int = 10, weight: int = 0, ttl: int = 300) -> None:
        self.add("SRV", name, struct.pack("!HHH", priority, weight, port) + wire_name(target), ttl)

    def cname(self, name: str, target: str, ttl: int = 300) -> None:
        self._aliases[name.lower()] = (target.lower(), ttl)

    def forget(self, name: str) -> None:
        for key in [k for k in self._records if k[0] == name.lower()]:
            del self._records[key]

    # --- what it was asked ---
    def count(self, name: str, kind: str = "", since: float = 0.0) -> int:
        return sum(q.name == name.lower() and kind in ("", q.kind) and q.at >= since for q in self.asked)

    def about(self, part: str) -> list[str]:
        return [f"{q.kind} {q.name}" for q in self.asked if part in q.name]

    # --- the wire ---
    def _answer_udp(self, data: bytes, addr: Any) -> None:
        answer = self._answer(data, False)
        if answer is None or self._udp is None:
            return
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self._udp.sendto, answer, addr)
        else:
            self._udp.sendto(answer, addr)

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size, = struct.unpack("!H", await reader.readexactly(2))
                answer = self._answer(await reader.readexactly(size), True)
                if answer is not None:
                    writer.write(struct.pack("!H", len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, query: bytes, tcp: bool) -> bytes | None:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        kind_number, = struct.unpack("!H", query[at + 1:at + 3])
        question = query[12:at + 5]
        name, kind = ".".join(labels).lower(), NAMES.get(kind_number, str(kind_number))
        self.asked.append(Question(time.monotonic(), name, kind, tcp))
        mode = self.modes.get(name, self.mode)
        if mode == "silent":
            return None
        answers, authority, code = [], [], FAILURES.get(mode, 0)
        owner = name
        if not code:
            if name in self._aliases:
                owner, ttl = self._aliases[name]
                answers.append(self._record(name, "CNAME", wire_name(owner), ttl))
            found = self._records.get((owner, kind), [])
            answers += [self._record(owner, kind, data, ttl) for data, ttl in found]
            if not any(k[0] == owner for k in self._records):
                code = 3
            if not found and self.negative_ttl is not None:
                soa = wire_name("ns.test") + wire_name("admin.test") + struct.pack(
                    "!IIIII", 1, 3600, 600, 86400, self.negative_ttl)
                authority.append(self._record("test", "SOA", soa, self.negative_ttl))
        flags = 0x8180 | code
        if mode == "truncate" and not tcp:
            flags, answers, authority = flags | 0x0200, [], []
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(answers), len(authority), 0) + question + b"".join(
            answers + authority)

    @staticmethod
    def _record(owner: str, kind: str, data: bytes, ttl: int) -> bytes:
        return wire_name(owner) + struct.pack("!HHIH", TYPES[kind], 1, ttl, len(data)) + data
