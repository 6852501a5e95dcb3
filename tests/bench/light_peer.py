"""A process of peers that only take transactions: TLS on 0.0.0.0:PORT, any path, 200 {} at once. Prints what it took.

    light_peer.py PORT CERTIFICATE KEY

A line `count` on standard input is answered with a JSON line: transactions, PDUs, and those that each address took.
"""
from __future__ import annotations

import asyncio
import json
import ssl
import sys

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"pdus":{}}'


class Tally:
    def __init__(self) -> None:
        self.transactions = 0
        self.pdus = 0
        self.connections = 0
        self.by_address: dict[str, int] = {}


class Peer(asyncio.Protocol):
    """One connection. A request counts when its last byte is here."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.buffer = bytearray()
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.address = transport.get_extra_info("sockname")[0]
        self.tally.connections += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15:].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4:end + 4 + length])
            del self.buffer[:end + 4 + length]
            pdus = body.count(b'"prev_events"')  # cheaper than parsing, and the bodies are ours
            self.tally.transactions += 1
            self.tally.pdus += pdus
            self.tally.by_address[self.address] = self.tally.by_address.get(self.address, 0) + pdus
            self.transport.write(ANSWER)  # type: ignore[attr-defined]


async def main() -> None:
    port, certificate, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tally = Tally()
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Peer(tally), "0.0.0.0", port, ssl=context, backlog=2048)
    print(json.dumps({"ready": port}), flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps({"transactions": tally.transactions, "pdus": tally.pdus, "connections": tally.connections,
                          "least": min(tally.by_address.values(), default=0),
                          "addresses": len(tally.by_address)}), flush=True)


asyncio.run(main())
