"""One TLS listener on 0.0.0.0 that is any number of servers named 127.A.B.C:PORT, and the client side they share."""
from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from . import matrix
from .exchange import Hold, Request
from .http2 import Either
from .peer import Peer
from .tls import Authority


class Network:
    """The listener, its peers and the client side that they share."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.port = 0
        self.epoch = 0  # counts engine starts; rules about order hold within one life of the engine
        self.engine_name = ""
        self.bases: dict[str, str] = {}  # server name -> base URL to dial instead of https://name
        self.engine_keys: dict[str, dict[str, str]] = {}
        self.peers: dict[str, Peer] = {}
        self.violations: list[str] = []
        self.tolerated: list[str] = []
        self.holds: list[Hold] = []
        self._by_ip: dict[str, Peer] = {}
        self._server = web.Server(self._handle, access_log=None, keepalive_timeout=120)
        self._socket: socket.socket | None = None
        self._further: list[socket.socket] = []
        self._kept: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: aiohttp.ClientSession | None = None

    async def start(self, port: int = 0) -> None:
        self._socket = self._listener("0.0.0.0", port)
        self.port = self._socket.getsockname()[1]
        self._spawn(self._accept(self._socket))

    @staticmethod
    def _listener(ip: str, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((ip, port))
        except OSError:
            made.close()
            raise
        made.listen(1024)
        made.setblocking(False)
        return made

    def listen(self, ip: str, port: int) -> None:
        """One more address (443 and 8448 are where discovery looks); whose it is, is known by its IP."""
        made = self._listener(ip, port)
        self._further.append(made)
        self._spawn(self._accept(made))

    def by_ip(self, ip: str) -> Peer | None:
        return self._by_ip.get(ip)

    def _peer_of(self, transport: Any) -> Peer | None:
        """Whom a connection was made to; nobody if it is closed already."""
        address = transport.get_extra_info("sockname") if transport else None
        return self._by_ip.get(address[0]) if address else None

    async def close(self) -> None:
        for hold in self.holds:
            hold.release()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in [self._socket, *self._further]:
            if listener:
                listener.close()
        for kept in self._kept:
            kept.close()
        for peer in self.peers.values():
            peer.down()
        await self._server.shutdown(0.1)
        if self._client:
            await self._client.close()

    def peer(self, number: int) -> Peer:
        """The server 127.(1+n/65536).(n/256).(n%256):PORT, made when first asked for."""
        ip = f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        return self.named(f"{ip}:{self.port}", ip)

    def named(self, name: str, ip: str) -> Peer:
        """A server with any name, listening on a loopback address (for static routes)."""
        if name not in self.peers:
            self.peers[name] = self._by_ip[ip] = Peer(self, name, ip)
            if not name.startswith("127."):
                self.peers[name].context = self.authority.context_for_name(name.partition(":")[0])
        return self.peers[name]

    def violation(self, text: str) -> None:
        if not any(t in text for t in self.tolerated):
            self.violations.append(text)

    def base_of(self, server: str) -> str:
        return self.bases.get(server, f"https://{server}")

    async def keys_of(self, server: str) -> dict[str, str]:
        """Current verify keys of a server: of a peer, or fetched once and checked."""
        if server in self.peers:
            key = self.peers[server].key
            return {key.key_id: key.public_text}
        if server not in self.engine_keys:
            status, body = await self.http("GET", self.base_of(server) + "/_matrix/key/v2/server", None, {}, 5.0)
            if status != 200 or not isinstance(body, dict):
                raise ValueError(f"no key of {server}: status {status}")
            keys = {k: v.get("key", "") for k, v in body.get("verify_keys", {}).items()}
            if body.get("server_name") != server or not matrix.verify_json(server, keys, body):
                raise ValueError(f"the key document of {server} is not self-signed")
            self.engine_keys[server] = keys
        return self.engine_keys[server]

    async def http(self, method: str, url: str, data: bytes | None, headers: dict[str, str],
                   timeout: float) -> tuple[int, Any]:
        if self._client is None:
            connector = aiohttp.TCPConnector(ssl=self.authority.client_context(), force_close=True, limit=0)
            self._client = aiohttp.ClientSession(connector=connector)
        try:
            async with self._client.request(method, URL(url, encoded=True), data=data, headers=headers,
                                            timeout=aiohttp.ClientTimeout(total=timeout)) as got:
                raw = await got.read()
                try:
                    return got.status, json.loads(raw)
                except ValueError:
                    return got.status, raw
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as problem:
            return 0, f"{type(problem).__name__}: {problem}"

    # --- listener ---
    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            self._spawn(self._connected(connection))

    async def _connected(self, connection: socket.socket) -> None:
        ip = connection.getsockname()[0]
        peer = self._by_ip.get(ip)
        now = time.monotonic()
        if peer:
            peer.accepts.append(now)
        if peer is None or peer.mode != "up":
            if peer:
                peer.refused.append(now)
            mode = peer.mode if peer else "rst"
            if mode == "blackhole":
                self._kept.append(connection)
                return
            if mode == "garbage":
                try:
                    connection.send(b"220 rig speaks no TLS\r\n")
                except OSError:
                    pass
            if mode == "rst":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            return
        context = peer.context or self.authority.context_for_ip(ip)
        try:
            transport, _protocol = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Either(self, self._server), connection, ssl=context, ssl_handshake_timeout=20)
        except (OSError, asyncio.TimeoutError):
            connection.close()
            return
        peer.ports.append(connection.getsockname()[1] if connection.fileno() >= 0 else 0)
        peer._connections = {t for t in peer._connections if not t.is_closing()} | {transport}
        if peer.mode != "up":
            transport.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        peer = self._peer_of(transport)
        if peer is None or peer.mode != "up":
            if transport:
                transport.close()
            return web.Response(status=500)
        try:
            raw = await request.content.read()
        except (ConnectionError, aiohttp.ClientError):
            return web.Response(status=500)  # gone before its body was here
        answer = await self.serve(transport, request.method, request.raw_path, raw,
                                  {k.lower(): v for k, v in request.headers.items()})
        if answer is None:
            if transport:
                transport.close()
            return web.Response(status=500)
        status, headers, body = answer
        return web.Response(status=status, body=body, headers=headers)

    async def serve(self, transport: Any, method: str, uri: str, raw: bytes,
                    given: dict[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        """One request, whatever carried it: status, headers, body. None: no answer, the connection is closed."""
        peer = self._peer_of(transport)
        if peer is None:
            return None
        made = Request(time.monotonic(), peer, method, uri, raw, given, self.epoch, transport=transport)
        if raw:
            try:
                made.json = json.loads(raw)
            except ValueError:
                made.problem = "the body is no JSON"
        if made.headers.get("host") != peer.host:
            self.violation(f"{peer.name}: Host header is {made.headers.get('host')!r}")
        try:
            answer = await peer.serve(made)
        finally:
            made.ended = time.monotonic()
        made.status = answer.status
        if answer.drop or peer.mode != "up":
            made.status = None
            return None
        body = answer.raw if answer.raw is not None else matrix.dumps(answer.body).encode()
        return answer.status, {**answer.headers, "Content-Type": answer.content_type}, body
