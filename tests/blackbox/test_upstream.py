"""[federation] upstream: what the engine doesn't serve goes to the homeserver, authenticated (API 2, 4)."""
from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from aiohttp import web
from rig import Engine, Peer, Rig, case, check, equal, free_port, matrix, quote, user
from rig.rooms import partial_join


@dataclass
class Homeserver:
    """The host's federation port: remembers what comes, answers as told."""
    port: int
    seen: list[dict] = field(default_factory=list)
    status: int = 200
    body: bytes = b'{"from": "the host"}'
    headers: dict = field(default_factory=lambda: {"Content-Type": "application/json", "X-Of-Host": "yes"})
    hang: bool = False
    runner: web.AppRunner | None = None

    async def up(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{tail:.*}", self.take)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()

    async def down(self) -> None:
        if self.runner:
            await self.runner.cleanup()
            self.runner = None

    async def take(self, request: web.Request) -> web.Response:
        self.seen.append({"method": request.method, "target": request.raw_path, "body": await request.read(),
                          "origins": request.headers.getall("X-Ranvier-Origin", []), "headers": dict(request.headers)})
        if self.hang:
            await asyncio.sleep(30)
        return web.Response(status=self.status, body=self.body, headers=self.headers)


async def with_host(rig: Rig, **config: object) -> tuple[Engine, Peer, Homeserver]:
    host = Homeserver(free_port())
    await host.up()
    engine = await rig.engine(federation={"upstream": f"http://127.0.0.1:{host.port}"}, **config)
    peer = rig.peer(1)
    await rig.shared(engine, peer)
    return engine, peer, host


@case("upstream-passes-what-isnt-ours")
async def passes(rig: Rig) -> None:
    """Method, target, body and the verified origin go on; status, headers and body come back, bytes too."""
    engine, peer, host = await with_host(rig)
    uri = "/_matrix/federation/v1/event/%24abc?x=1%202&y=a+b,c;d'"
    status, body = await peer.request("GET", uri)
    equal([status, body], [200, {"from": "the host"}], "the answer")
    seen = host.seen[-1]
    equal([seen["method"], seen["target"], seen["origins"]], ["GET", uri, [peer.name]], "what came to the host")
    host.status, host.body = 403, b'{"errcode": "M_FORBIDDEN", "error": "host says no"}'
    content = {"room_version": "10", "event": {"type": "m.room.member"}, "invite_room_state": []}
    uri = "/_matrix/federation/v2/invite/!r%3Aus/%24e"
    status, body = await peer.request("PUT", uri, content)
    equal([status, body["errcode"], body["error"]], [403, "M_FORBIDDEN", "host says no"], "a refusal of the host's")
    seen = host.seen[-1]
    equal([seen["method"], seen["target"], json.loads(seen["body"])], ["PUT", uri, content], "what came with a body")
    await host.down()


@case("upstream-origin-is-ours-alone")
async def origin(rig: Rig) -> None:
    """Without a good signature nothing reaches the host; a client's own X-Ranvier-Origin never does."""
    engine, peer, host = await with_host(rig)
    uri = "/_matrix/federation/v1/event/%24abc"
    for header in ("", "Bearer x", "X-Matrix origin=a", None):
        if header is None:  # signed for another target
            header = matrix.x_matrix(peer.key, "GET", uri + "d", peer.name, engine.name, None)
        status, body = await peer.request("GET", uri, header=header)
        check(status in (400, 401) and body["errcode"], f"{header!r} answered {status} {body}")
    equal(host.seen, [], "what came to the host")
    header = matrix.x_matrix(peer.key, "GET", uri, peer.name, engine.name, None)
    status, _ = await peer.net.http("GET", peer.net.base_of(engine.name) + uri, None,
                                    {"Host": engine.name, "Authorization": header,
                                     "X-Ranvier-Origin": "evil.test", "x-ranvier-origin": "evil2.test"}, 10)
    equal([status, host.seen[-1]["origins"]], [200, [peer.name]], "the origin")
    await host.down()


@case("upstream-never-gets-what-is-ours")
async def ours(rig: Rig) -> None:
    """/send and the like are never passed on, however they are written; a wrong method of ours is 405."""
    engine, peer, host = await with_host(rig)
    content = {"origin": peer.name, "origin_server_ts": 1, "pdus": []}
    equal((await peer.send())[0], 200, "an ordinary transaction")
    for uri in ("/_matrix/federation/v1/%73end/a1", "/_matrix/federation/v1//send/a2",
                "/_matrix/federation/v1/send/a3/",
                "/_matrix/federation/v1/send%2Fa4", "/_matrix/federation/v1/x%2F..%2Fsend/a5",
                "/_matrix/federation/v1/%2e%2e/v1/send/a6", "/_matrix/client/v3/login"):
        status, body = await peer.net.http(
            "PUT", peer.net.base_of(engine.name) + uri, matrix.canonical(content),
            {"Host": engine.name, "Content-Type": "application/json",
             "Authorization": matrix.x_matrix(peer.key, "PUT", uri, peer.name, engine.name, content)}, 10)
        check(status == 404, f"{uri} answered {status} {body}")
    status, body = await peer.request("GET", "/_matrix/federation/v1/send/a7")
    equal([status, body["errcode"]], [405, "M_UNRECOGNIZED"], "a wrong method")
    equal(host.seen, [], "what came to the host")
    await host.down()


@case("upstream-without-partial-rooms")
async def residents(rig: Rig) -> None:
    """make_join of a room goes to the host; version and keys don't."""
    engine, peer, host = await with_host(rig)
    status, body = await peer.request("GET", "/_matrix/federation/v1/make_join/!r%3Aus/%40u%3Athem?ver=10")
    equal([status, body], [200, {"from": "the host"}], "make_join")
    equal(host.seen[-1]["origins"], [peer.name], "the origin")
    content = {"type": "m.room.member", "content": {"membership": "join"}}
    status, body = await peer.request("PUT", "/_matrix/federation/v2/send_join/!r%3Aus/%24e", content)
    equal([status, json.loads(host.seen[-1]["body"])], [200, content], "send_join")
    count = len(host.seen)
    for uri in ("/_matrix/federation/v1/version", "/_matrix/key/v2/server"):
        status, body = await peer.request("GET", uri)
        check(status == 200 and body != {"from": "the host"}, f"{uri} answered {status} {body}")
    equal(len(host.seen), count, "what came to the host")
    await host.down()


@case("upstream-away", timeout=60)
async def away(rig: Rig) -> None:
    """The host is down: 502, transactions still work; up again: passed on; large answers come whole."""
    engine, peer, host = await with_host(rig)
    await host.down()
    uri = "/_matrix/federation/v1/event/%24abc"
    status, body = await peer.request("GET", uri)
    check(status == 502 and "homeserver" in body["error"], f"answered {status} {body}")
    equal((await peer.send())[0], 200, "a transaction meanwhile")
    check("upstream_failed" in engine.log_file.read_text(), "nothing in the log")
    await host.up()
    equal((await peer.request("GET", uri))[0], 200, "when the host is back")
    host.body = matrix.canonical({"x": "y" * 3_000_000})
    status, body = await peer.request("GET", uri)
    equal([status, len(body["x"])], [200, 3_000_000], "a large answer")
    answers = await asyncio.gather(*(peer.request("GET", uri + str(i)) for i in range(40)))
    equal({status for status, _ in answers}, {200}, "40 at a time")
    await host.down()


@case("upstream-none")
async def none(rig: Rig) -> None:
    """Without upstream: 404 M_UNRECOGNIZED, as ever."""
    engine = await rig.engine()
    peer = rig.peer(1)
    status, body = await peer.request("GET", "/_matrix/federation/v1/event/%24abc")
    equal([status, body["errcode"]], [404, "M_UNRECOGNIZED"], "the answer")


@case("upstream-not-for-partial-rooms")
async def partial(rig: Rig) -> None:
    """P8: who asks to join or knock through us in a room that is partial gets 404, and the host isn't asked; once the
    room is whole, it is."""
    engine, peer, host = await with_host(rig)
    joined = await partial_join(engine, peer, [peer.user("derek")], user_id=user(engine))
    await joined.held()
    room, eve = quote(joined.room.room_id), quote(peer.user("eve"))
    calls = (("GET", f"v1/make_join/{room}/{eve}?ver=10"), ("GET", f"v1/make_knock/{room}/{eve}?ver=10"),
             ("PUT", f"v1/send_join/{room}/%24e"), ("PUT", f"v2/send_join/{room}/%24e"),
             ("PUT", f"v1/send_knock/{room}/%24e"))
    for method, path in calls:
        status, body = await peer.request(method, "/_matrix/federation/" + path, {} if method == "PUT" else None)
        equal([status, body["errcode"]], [404, "M_NOT_FOUND"], f"{method} {path}")
    equal(host.seen, [], "what came to the host")
    stream = rig.collector(engine)
    joined.release()
    await stream.until(lambda i: i["kind"] == "partial_join", 15, "completion")
    for method, path in calls:
        status, body = await peer.request(method, "/_matrix/federation/" + path, {} if method == "PUT" else None)
        equal([status, body], [200, {"from": "the host"}], f"{method} {path} of the whole room")
    await host.down()
