"""Synapse's federation admin API on ours, asked as synadm and curl ask it (API 6)."""
from __future__ import annotations

import json
from typing import Any

from rig import Rig, case, check, equal, failing, free_port, has, quote, run_command, user
from test_cli_json import SPEC

BASE = "/_synapse/admin/v1/federation/destinations"


async def curl(*words: str) -> tuple[int, Any]:
    """As from a shell: the status, and the answer's JSON."""
    done = await run_command(["curl", "-s", "-w", "\n%{http_code}", *words])
    text, _, status = done.out.rpartition("\n")
    return int(status), json.loads(text)


async def prepared(rig: Rig) -> tuple[Any, Any, Any, Any]:
    engine = rig.make_engine()
    engine.config["admin"] = {"listen": f"127.0.0.1:{free_port()}"}
    engine.config["backoff"] = {"first": "1h"}
    await engine.start()
    good, dead = rig.peers(2)
    room = await rig.shared(engine, good, dead)
    dead.down()
    records = room.messages(user(engine), 2)
    await engine.feed(*records)
    await has(good, records, 5)
    await failing(engine, dead)
    return engine, good, dead, room


@case("synapse-admin-destinations", timeout=60)
async def destinations(rig: Rig) -> None:
    """The list and one of it have Synapse's members and values; paging, order and filter as synadm uses them."""
    engine, good, dead, _ = await prepared(rig)
    url = f"http://{engine.config['admin']['listen']}"
    token = (engine.data / "admin_token").read_text().strip()
    # synadm: GET, bearer token, from, limit, and what its options give.
    ask = ["-H", f"Authorization: Bearer {token}", "-H", "User-Agent: synadm/0.44"]
    status, body = await curl(*ask, f"{url}{BASE}?from=0&limit=100&dir=f&order_by=destination")
    equal([status, body["total"], [d["destination"] for d in body["destinations"]]],
          [200, 2, sorted([good.name, dead.name])], "the list")
    check("next_token" not in body, "a next page although there is none")
    wrong = SPEC.check(body, SPEC.answer_schema("GET", BASE, 200))
    check(not wrong, f"it isn't as documented: {wrong}")
    by_name = {d["destination"]: d for d in body["destinations"]}
    equal(set(by_name[good.name]), {"destination", "retry_last_ts", "retry_interval", "failure_ts",
                                    "last_successful_stream_ordering"}, "the members")
    fine, bad = by_name[good.name], by_name[dead.name]
    equal([fine["retry_last_ts"], fine["retry_interval"], fine["failure_ts"]], [0, 0, None], "of the one that is well")
    check(fine["last_successful_stream_ordering"] > 0, f"its position is {fine}")
    gate = await engine.gate(dead.name)
    equal([bad["failure_ts"], bad["retry_interval"], bad["retry_last_ts"] + bad["retry_interval"]],
          [gate["failing_since_ms"], gate["interval_ms"], gate["next_attempt_ms"]], "of the one that is down")
    status, body = await curl(*ask, f"{url}{BASE}?limit=1&order_by=retry_last_ts&dir=b")
    equal([[d["destination"] for d in body["destinations"]], body["total"], body["next_token"]], [[dead.name], 2, "1"],
          "the first page of those that fail")
    status, body = await curl(*ask, f"{url}{BASE}?limit=1&order_by=retry_last_ts&dir=b&from={body['next_token']}")
    equal([[d["destination"] for d in body["destinations"]], "next_token" in body], [[good.name], False], "the second")
    status, body = await curl(*ask, f"{url}{BASE}?destination={dead.name.split(':')[0]}")
    equal([body["total"], body["destinations"][0]["destination"]], [1, dead.name], "filtered")
    status, body = await curl(*ask, f"{url}{BASE}/{quote(dead.name)}")
    equal([status, body], [200, bad], "one of them")
    status, body = await curl("--unix-socket", str(engine.socket), f"http://admin{BASE}/{good.name}")
    equal([status, body["destination"]], [200, good.name], "over the socket, without a token")


@case("synapse-admin-rooms-and-reset", timeout=60)
async def rooms(rig: Rig) -> None:
    """Rooms have a stream ordering and pages; a reset brings the next attempt; who isn't failing needs none."""
    engine, good, dead, room = await prepared(rig)
    other = await rig.shared(engine, dead)
    socket = ["--unix-socket", str(engine.socket)]
    status, body = await curl(*socket, f"http://admin{BASE}/{dead.name}/rooms?from=0&limit=10&dir=f")
    equal([status, body["total"], [r["room_id"] for r in body["rooms"]]],
          [200, 2, sorted([room.room_id, other.room_id])], "the rooms")
    check(not SPEC.check(body, SPEC.answer_schema("GET", BASE + "/{name}/rooms", 200)), f"the answer is {body}")
    newest = next(r["stream_ordering"] for r in body["rooms"] if r["room_id"] == room.room_id)
    check(newest > 0, "the room with two events has no stream ordering")
    status, body = await curl(*socket, f"http://admin{BASE}/{dead.name}/rooms?limit=1&dir=b")
    equal([len(body["rooms"]), body["next_token"], body["total"]], [1, "1", 2], "the last one")
    dead.up()
    reset = ["-X", "POST", "-H", "Content-Type: application/json", "-d", "{}"]
    status, body = await curl(*socket, *reset, f"http://admin{BASE}/{dead.name}/reset_connection")
    equal([status, body], [200, {}], "the reset")
    await has(dead, [], 1)
    for _ in range(100):
        if dead.pdus:
            break
        status, body = await curl(*socket, f"http://admin{BASE}/{dead.name}")
    check(dead.pdus, "nothing was delivered after the reset")
    status, body = await curl(*socket, *reset, f"http://admin{BASE}/{good.name}/reset_connection")
    equal([status, body["errcode"]], [400, "M_UNKNOWN"], "a reset that isn't needed")
    verbs = [(a["verb"], a["subject"]) for a in (await engine.admin("GET", "/audit"))[1]["audit"]]
    check(("reset_connection", dead.name) in verbs, f"the audit log has {verbs}")


@case("synapse-admin-errors")
async def errors(rig: Rig) -> None:
    """Errors are Matrix's, with Synapse's codes: unknown names, odd parameters, no token, another call."""
    engine, good, _, _ = await prepared(rig)
    socket = ["--unix-socket", str(engine.socket)]
    wanted = {"/none.test": (404, "M_NOT_FOUND"), "/none.test/rooms": (404, "M_NOT_FOUND"),
              "?from=-1": (400, "M_INVALID_PARAM"), "?limit=many": (400, "M_INVALID_PARAM"),
              "?dir=up": (400, "M_INVALID_PARAM"), "?order_by=age": (400, "M_INVALID_PARAM"),
              f"/{good.name}/rooms?from=x": (400, "M_INVALID_PARAM"), "/a/b/c": (404, "M_UNRECOGNIZED")}
    for path, (code, errcode) in wanted.items():
        status, body = await curl(*socket, f"http://admin{BASE}{path}")
        equal([status, body.get("errcode"), bool(body.get("error"))], [code, errcode, True], path)
    status, body = await curl(*socket, "-X", "POST", f"http://admin{BASE}/none.test/reset_connection")
    equal([status, body["errcode"]], [404, "M_NOT_FOUND"], "a reset of nobody")
    status, body = await curl(*socket, "-X", "DELETE", f"http://admin{BASE}/{good.name}")
    equal([status, body["errcode"]], [405, "M_UNRECOGNIZED"], "a method that there isn't")
    url = f"http://{engine.config['admin']['listen']}"
    for words in ([], ["-H", "Authorization: Bearer wrong"]):
        status, body = await curl(*words, f"{url}{BASE}")
        check(status == 401 and body["errcode"] in ("M_MISSING_TOKEN", "M_UNKNOWN_TOKEN"), f"{words}: {status} {body}")
