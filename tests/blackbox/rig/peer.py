"""A scripted homeserver. Every accept, request and transaction is recorded with its (monotonic) time.

What a conforming sender must never do (bad signature, two transactions at once, changed bytes under one id, too many
items...) is collected in `Network.violations`; a test that leaves any there fails.
"""
from __future__ import annotations

import asyncio
import re
import ssl
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, Awaitable, Callable

from . import matrix
from .books import DeviceBook
from .exchange import EDU_CAP, PDU_CAP, Answer, Hold, Matcher, Request, Rule, Transaction, error, quote
from .matrix import Json, Key

if TYPE_CHECKING:
    from .network import Network


class Peer:
    """One fake homeserver."""

    def __init__(self, net: "Network", name: str, ip: str) -> None:
        self.net, self.name, self.ip = net, name, ip
        self.key = Key("peer" + re.sub(r"\W", "_", ip))
        self.mode = "up"
        self.context: ssl.SSLContext | None = None
        self.host = name  # the Host header that is expected
        self.http2: list[Any] = []  # its HTTP/2 connections (rig.http2.Http2), if its context offers that
        self.http2_refuse = 0  # so many further streams are refused
        self.http2_streams = 100  # at a time
        self.accepts: list[float] = []
        self.refused: list[float] = []  # accepts while down
        self.requests: list[Request] = []
        self.transactions: list[Transaction] = []
        self.pdus: list[tuple[float, str, Json]] = []  # accepted, each transaction once
        self.edus: list[tuple[float, Json]] = []
        self.unexpected: list[Request] = []
        self.rules: list[Rule] = []
        self.books: dict[str, DeviceBook] = {}
        # Further endpoints, asked last: (peer, request, path parts after "federation") -> answer or None.
        self.endpoints: list[Callable[["Peer", Request, list[str]], Answer | None]] = []
        self.sni: list[str | None] = []  # of each handshake, if its context tells
        self.ports: list[int] = []  # where each connection was made to
        self._done: dict[str, tuple[bytes, Json]] = {}
        self._connections: set[asyncio.BaseTransport] = set()
        self._last: Transaction | None = None

    # --- what it is called ---
    def user(self, local: str) -> str:
        return f"@{local}:{self.name}"

    def book(self, user_id: str) -> DeviceBook:
        if user_id not in self.books:
            self.books[user_id] = DeviceBook(user_id)
        return self.books[user_id]

    # --- reading the record ---
    def asked(self, path: str, since: float = 0.0) -> list[Request]:
        """Requests whose (unquoted) path holds `path`."""
        return [r for r in self.requests if r.at >= since and path in urllib.parse.unquote(r.uri)]

    def contacts(self, since: float = 0.0) -> int:
        """Requests plus refused connections."""
        return sum(r.at >= since for r in self.requests) + sum(t >= since for t in self.refused)

    def event_ids(self) -> list[str]:
        return [i for _, i, _ in self.pdus]

    def fresh(self, mark: int) -> list[Transaction]:
        """Transactions after the first `mark` ones, without repeats of those (a refused one comes first again)."""
        old = {t.txn_id for t in self.transactions[:mark]}
        return [t for t in self.transactions[mark:] if t.txn_id not in old]

    def has(self, *event_ids: str) -> bool:
        return set(event_ids) <= set(self.event_ids())

    def edus_of(self, edu_type: str) -> list[Json]:
        return [e["content"] for _, e in self.edus if e.get("edu_type") == edu_type]

    def device_edus(self, user_id: str | None = None) -> list[Json]:
        return [c for c in self.edus_of("m.device_list_update") if user_id in (None, c.get("user_id"))]

    # --- scripting ---
    def down(self, kind: str = "rst") -> None:
        """rst, close (before TLS), blackhole (accepted, never answered), garbage (bytes that are no TLS)."""
        self.mode = kind
        for transport in [t for t in self._connections if not t.is_closing()]:
            try:
                getattr(transport, "abort", transport.close)()
            except AttributeError:
                pass  # an SSL transport that lost its socket in this turn of the loop

    def up(self) -> None:
        self.mode = "up"

    @staticmethod
    def _matcher(match: Matcher) -> Callable[[Request], bool]:
        if callable(match):
            return match
        return lambda r: match in urllib.parse.unquote(r.uri)

    def rule(self, match: Matcher, act: Callable[..., Awaitable[Answer]], times: int | None = None) -> Rule:
        made = Rule(self._matcher(match), act, times)
        self.rules.insert(0, made)
        return made

    def forget(self, rule: Rule) -> None:
        if rule in self.rules:
            self.rules.remove(rule)

    def answer(self, match: Matcher, status: int = 200, body: Any = None, *, headers: dict[str, str] | None = None,
               raw: bytes | None = None, content_type: str = "application/json", times: int | None = None) -> Rule:
        """Answers so, instead of processing."""
        reply = Answer(status, error(status) if body is None else body, headers or {}, raw, content_type)

        async def act(_: Request, __: Any) -> Answer:
            return reply
        return self.rule(match, act, times)

    def slow(self, match: Matcher, seconds: float, times: int | None = None) -> Rule:
        async def act(_: Request, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
            await asyncio.sleep(seconds)
            return await proceed()
        return self.rule(match, act, times)

    def drop(self, match: Matcher, times: int | None = None, process: bool = False) -> Rule:
        """Closes without an answer; with `process`, only after having taken the request in."""
        async def act(_: Request, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
            if process:
                await proceed()
            return Answer(drop=True)
        return self.rule(match, act, times)

    def hold(self, match: Matcher, times: int | None = None, process_first: bool = False) -> Hold:
        """Keeps matching requests waiting; with `process_first` the (old) answer is made before the wait."""
        gate = Hold()
        self.net.holds.append(gate)

        async def act(_: Request, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
            made = await proceed() if process_first else None
            await gate.wait()
            return made or await proceed()
        self.rule(match, act, times)
        return gate

    def refuse_item(self, wanted: Callable[[Json], bool], status: int = 400, body: Any = None) -> Rule:
        """Refuses every transaction in which `wanted(pdu or edu)` holds for an item."""
        def match(request: Request) -> bool:
            if "/send/" not in request.path or not isinstance(request.json, dict):
                return False
            return any(wanted(i) for i in request.json.get("pdus", []) + request.json.get("edus", []))
        return self.answer(match, status, body if body is not None
                           else {"errcode": "M_BAD_JSON", "error": "rig: this item is not acceptable"})

    def refuse_event(self, event_id: str, status: int = 400, body: Any = None) -> Rule:
        return self.refuse_item(lambda i: "edu_type" not in i and matrix.event_id(i) == event_id, status, body)

    # --- acting as a client of the engine (or of another peer) ---
    async def request(self, method: str, uri: str, content: Any = None, *, to: str | None = None,
                      base: str | None = None, header: str | None = None, raw: bytes | None = None,
                      timeout: float = 15.0) -> tuple[int, Any]:
        """A signed request; (status, parsed body). Status 0: no answer, with the reason."""
        destination = to or self.net.engine_name
        headers = {"Host": destination}
        if header is None:
            header = matrix.x_matrix(self.key, method, uri, self.name, destination, content)
        if header:
            headers["Authorization"] = header
        data = raw if raw is not None else (matrix.canonical(content) if content is not None else None)
        if data is not None:
            headers["Content-Type"] = "application/json"
        return await self.net.http(method, (base or self.net.base_of(destination)) + uri, data, headers, timeout)

    async def send(self, pdus: list[Json] | None = None, edus: list[Json] | None = None, *,
                   txn_id: str | None = None, timeout: float = 15.0, **extra: Any) -> tuple[int, Any]:
        """A transaction to the engine."""
        body = {"origin": self.name, "origin_server_ts": matrix.now_ms(), "pdus": pdus or [], "edus": edus or [],
                **extra}
        txn = txn_id or matrix.unique(f"t{matrix.now_ms()}x")
        return await self.request("PUT", f"/_matrix/federation/v1/send/{txn}", body, timeout=timeout)

    async def user_devices(self, user_id: str) -> tuple[int, Any]:
        return await self.request("GET", "/_matrix/federation/v1/user/devices/" + quote(user_id))

    async def keys_query(self, query: Json) -> tuple[int, Any]:
        return await self.request("POST", "/_matrix/federation/v1/user/keys/query", {"device_keys": query})

    async def keys_claim(self, claim: Json) -> tuple[int, Any]:
        return await self.request("POST", "/_matrix/federation/v1/user/keys/claim", {"one_time_keys": claim})

    def event(self, room_id: str, sender: str, kind: str, content: Json, **kw: Any) -> Json:
        """A signed PDU of a user of this server."""
        return matrix.build_event(self.key, self.name, room_id, sender, kind, content, **kw)

    # --- serving ---
    def key_response(self) -> Json:
        return self.key.sign_json(self.name, {
            "server_name": self.name, "valid_until_ts": matrix.now_ms() + 86_400_000, "old_verify_keys": {},
            "verify_keys": {self.key.key_id: {"key": self.key.public_text}}})

    async def serve(self, request: Request) -> Answer:
        self.requests.append(request)
        await self._authenticate(request)
        if request.problem:
            self.net.violation(f"{self.name}: {request.method} {request.uri}: {request.problem}")
            return Answer(401, {"errcode": "M_UNAUTHORIZED", "error": request.problem})
        if "/v1/send/" in request.path and request.method == "PUT":
            return await self._serve_transaction(request)
        return await self._through_rules(request, lambda: self._ordinary(request))

    async def _through_rules(self, request: Request, ordinary: Callable[[], Awaitable[Answer]]) -> Answer:
        for rule in self.rules:
            if rule.live and rule.match(request):
                rule.hits += 1
                return await rule.act(request, ordinary)
        return await ordinary()

    async def _authenticate(self, request: Request) -> None:
        if not request.path.startswith("/_matrix/federation/") or request.path.endswith("/v1/version"):
            return
        header = request.headers.get("authorization", "")
        try:
            given = matrix.parse_x_matrix(header)
            origin = given["origin"]
            if given.get("destination") != self.name:
                raise ValueError(f"destination is {given.get('destination')!r}")
            public = (await self.net.keys_of(origin)).get(given["key"])
            if public is None:
                raise ValueError(f"{origin} has no key {given['key']}")
            content = request.json if request.raw else None
            signed = matrix.request_object(request.method, request.uri, origin, self.name, content)
            if not matrix.verify_text(public, signed, given["sig"]):
                raise ValueError("the X-Matrix signature is wrong")
            request.origin = origin
        except (KeyError, ValueError) as error_:
            request.problem = f"X-Matrix: {error_}"

    async def _serve_transaction(self, request: Request) -> Answer:
        body = request.json if isinstance(request.json, dict) else {}
        txn = Transaction(request.at, request.parts[-1], request.raw, body.get("pdus") or [], body.get("edus") or [],
                          request.epoch)
        others = [r for r in self.requests if r is not request and "/v1/send/" in r.path and r.alive
                  and r.epoch == request.epoch]
        if others:
            self.net.violation(f"{self.name}: two transactions in flight at once")
        if len(txn.pdus) > PDU_CAP or len(txn.edus) > EDU_CAP:
            self.net.violation(f"{self.name}: transaction of {len(txn.pdus)} PDUs and {len(txn.edus)} EDUs")
        if body.get("origin") != request.origin or not isinstance(body.get("origin_server_ts"), int):
            self.net.violation(f"{self.name}: transaction without right origin or origin_server_ts")
        if any(t.txn_id == txn.txn_id and t.raw != txn.raw for t in self.transactions):
            self.net.violation(f"{self.name}: transaction id {txn.txn_id} came again with other bytes")
        last = self._last
        if last and last.status != 200 and last.txn_id != txn.txn_id and last.epoch == txn.epoch \
                and not self._is_trial(txn, last):
            self.net.violation(f"{self.name}: new transaction {txn.txn_id} before {last.txn_id} was answered 200")
        self.transactions.append(txn)
        self._last = txn
        made = await self._through_rules(request, lambda: self._take(txn))
        txn.status = None if made.drop else made.status
        if made.status == 200 and made.content_type != "application/json":
            txn.status = 599  # a page of a proxy is no answer
        return made

    def _is_trial(self, txn: Transaction, last: Transaction) -> bool:
        """An empty transaction after three 5xx for the same bytes: how poison is told from an outage (DESIGN 6)."""
        return not txn.pdus and not txn.edus and sum(
            t.txn_id == last.txn_id and (t.status or 0) >= 500 for t in self.transactions) >= 3

    async def _take(self, txn: Transaction) -> Answer:
        """Applies a transaction, once per id."""
        known = self._done.get(txn.txn_id)
        if known:
            txn.repeat = True
            return Answer(200, known[1])
        now, results = time.monotonic(), {}
        for pdu in txn.pdus:
            event_id = matrix.event_id(pdu)
            self.pdus.append((now, event_id, pdu))
            results[event_id] = {}
        self.edus += [(now, edu) for edu in txn.edus]
        body = {"pdus": results}
        self._done[txn.txn_id] = (txn.raw, body)
        return Answer(200, body)

    async def _ordinary(self, request: Request) -> Answer:
        parts = request.parts
        if parts[:3] == ["key", "v2", "server"] and request.method == "GET":
            return Answer(200, self.key_response())
        if parts[:3] == ["key", "v2", "query"] and request.method == "POST":
            return Answer(200, self._notary(request.json if isinstance(request.json, dict) else {}))
        if parts[:1] == ["federation"]:
            made = self._federation(request, parts[1:])
            if made:
                return made
        self.unexpected.append(request)
        return Answer(404, {"errcode": "M_UNRECOGNIZED", "error": "rig: no such endpoint"})

    def _federation(self, request: Request, parts: list[str]) -> Answer | None:
        name = "/".join(parts[1:3])
        if parts == ["v1", "version"]:
            return Answer(200, {"server": {"name": "rig", "version": "1"}})
        if name == "user/devices" and request.method == "GET":
            book = self.books.get(parts[3])
            return Answer(200, book.full()) if book else Answer(404, error(404))
        if name == "user/keys":
            body = request.json if isinstance(request.json, dict) else {}
            return Answer(200, self._query(body) if parts[3] == "query" else self._claim(body))
        for endpoint in self.endpoints:
            made = endpoint(self, request, parts)
            if made:
                return made
        return None

    def _notary(self, body: Json) -> Json:
        """The key documents of other servers, signed by us too (K12); what was never there is left out."""
        known = [self.net.peers[n] for n in body.get("server_keys", {}) if n in self.net.peers]
        return {"server_keys": [self.key.sign_json(self.name, p.key_response()) for p in known]}

    def _query(self, body: Json) -> Json:
        out: Json = {"device_keys": {}, "master_keys": {}, "self_signing_keys": {}}
        for user_id, wanted in body.get("device_keys", {}).items():
            book = self.books.get(user_id)
            if not book:
                continue
            out["device_keys"][user_id] = {d: k for d, k in book.query().items() if not wanted or d in wanted}
            if book.cross:
                out["master_keys"][user_id] = book.cross["master_key"]
                out["self_signing_keys"][user_id] = book.cross["self_signing_key"]
        return out

    def _claim(self, body: Json) -> Json:
        out: Json = {}
        for user_id, devices in body.get("one_time_keys", {}).items():
            for device_id, algorithm in devices.items():
                pool = self.books[user_id].one_time.get(device_id, {}) if user_id in self.books else {}
                found = next((k for k in pool if k.startswith(algorithm + ":")), None)
                if found:
                    out.setdefault(user_id, {}).setdefault(device_id, {})[found] = pool.pop(found)
        return {"one_time_keys": out}
