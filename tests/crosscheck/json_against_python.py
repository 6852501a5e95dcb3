"""Compares our canonical JSON, signatures, content hashes and event ids with those of Python's Matrix libraries.

    json_against_python.py PROBE [SEED] [COUNT]

Documents come from a seeded generator, so a failure can be had again. The redaction rules are written here once more
and on their own, as the specification's tables have them.
"""
from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
import sys
from typing import Any, Callable

PACKAGES = {"canonicaljson": "python3-canonicaljson", "signedjson": "python3-signedjson", "nacl": "python3-nacl"}
try:
    import nacl.signing
    from canonicaljson import encode_canonical_json
    from signedjson.key import decode_signing_key_base64
    from signedjson.sign import sign_json
except ImportError as problem:
    sys.exit(f"{sys.executable} has no module {problem.name}: install the Debian package "
             f"{PACKAGES.get(str(problem.name), problem.name)} (all of {', '.join(PACKAGES.values())} are needed).")

LARGEST = 2**53 - 1
LARGEST_DOUBLE = 1.7976931348623157e308
MAX_DEPTH = 100
KEY = decode_signing_key_base64("ed25519", "1", "YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1")
VERSIONS = range(1, 13)


class Refused(Exception):
    """Why a document may not be used."""


# --- what we expect ------------------------------------------------------------------------------------------------

def b64(data: bytes, url: bool = False) -> str:
    return (base64.urlsafe_b64encode if url else base64.b64encode)(data).decode().rstrip("=")


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Refused("bad_json")
    return out


def no_constant(name: str) -> Any:
    raise Refused("not_json")


def walk(value: Any, number: Callable[[Any], Any], depth: int = 0) -> Any:
    """A copy with each number changed; refuses lone surrogates and what is nested too deep."""
    if isinstance(value, (dict, list)) and depth >= MAX_DEPTH:
        raise Refused("bad_json")
    if isinstance(value, dict):
        return {walk(k, number): walk(v, number, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [walk(item, number, depth + 1) for item in value]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused("not_json") from None
        return value
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def strict_number(value: Any) -> Any:
    if isinstance(value, float) or abs(value) > LARGEST:
        raise Refused("bad_json")
    return value


def lenient_number(value: Any) -> Any:
    if isinstance(value, int):
        if -2**63 <= value < 2**64:
            return value
        value = float(value) if abs(value) < 2**1024 - 2**970 else float("inf")  # float() refuses larger ones
    value = max(-LARGEST_DOUBLE, min(LARGEST_DOUBLE, value))
    return int(value) if abs(value) <= LARGEST and value == int(value) else value


def parse(text: str, number: Callable[[Any], Any]) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Refused("not_json") from None
    return walk(value, number)


TOP = {"event_id", "type", "room_id", "sender", "state_key", "content", "hashes", "signatures", "depth", "prev_events",
       "auth_events", "origin_server_ts"}


def kept_content(event: dict[str, Any], version: int) -> dict[str, Any]:
    content = event.get("content")
    kind = event.get("type")
    if not isinstance(content, dict) or not isinstance(kind, str):
        return {}
    if kind == "m.room.create" and version >= 11:
        return content
    keep = {
        "m.room.member": {"membership"} | ({"join_authorised_via_users_server"} if version >= 9 else set()),
        "m.room.create": {"creator"},
        "m.room.join_rules": {"join_rule"} | ({"allow"} if version >= 8 else set()),
        "m.room.power_levels": {"ban", "events", "events_default", "kick", "redact", "state_default", "users",
                                "users_default"} | ({"invite"} if version >= 11 else set()),
        "m.room.history_visibility": {"history_visibility"},
        "m.room.aliases": {"aliases"} if version <= 5 else set(),
        "m.room.redaction": {"redacts"} if version >= 11 else set(),
    }.get(kind, set())
    out = {k: v for k, v in content.items() if k in keep}
    invite = content.get("third_party_invite")
    if kind == "m.room.member" and version >= 11 and isinstance(invite, dict):
        out["third_party_invite"] = {k: v for k, v in invite.items() if k == "signed"}
    return out


def redact(event: dict[str, Any], version: int) -> dict[str, Any]:
    keep = TOP | ({"prev_state", "origin", "membership"} if version <= 10 else set())
    if version >= 12 and event.get("type") == "m.room.create":
        keep = keep - {"room_id"}
    return {**{k: v for k, v in event.items() if k in keep}, "content": kept_content(event, version)}


def without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k not in names}


def signature(value: dict[str, Any]) -> str:
    bare = without(value, "signatures", "unsigned")
    return sign_json(bare, "domain", KEY)["signatures"]["domain"]["ed25519:1"]


def check_signatures(value: Any) -> None:
    there = value.get("signatures", {})
    if not isinstance(there, dict) or not all(isinstance(keys, dict) for keys in there.values()):
        raise Refused("bad_json")


def signed(text: str) -> str:
    value = parse(text, strict_number)
    if not isinstance(value, dict):
        raise Refused("bad_json")
    check_signatures(value)
    return signature(value)


def event_fields(text: str, version: int) -> str:
    value = parse(text, strict_number if version >= 6 else lenient_number)
    if not isinstance(value, dict):
        raise Refused("bad_json")
    check_signatures(value)
    digest = b64(hashlib.sha256(encode_canonical_json(without(value, "hashes", "signatures", "unsigned"))).digest())
    bare = without(redact({**value, "hashes": {"sha256": digest}}, version), "signatures", "unsigned")
    if version <= 2:
        event_id = value.get("event_id") if isinstance(value.get("event_id"), str) else ""
    else:
        event_id = "$" + b64(hashlib.sha256(encode_canonical_json(bare)).digest(), url=version >= 4)
    return f"{encode_canonical_json(event_id).decode()} {digest} {signature(bare)}"


def expected(text: str) -> list[str]:
    def attempt(make: Callable[[], str]) -> str:
        try:
            return make()
        except Refused as verdict:
            return "!" + str(verdict)
    fields = [attempt(lambda: encode_canonical_json(parse(text, strict_number)).decode()),
              attempt(lambda: encode_canonical_json(parse(text, lenient_number)).decode()),
              attempt(lambda: signed(text))]
    return fields + [attempt(lambda v=version: event_fields(text, v)) for version in VERSIONS]


# --- documents -----------------------------------------------------------------------------------------------------

ODD_CHARACTERS = ['"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\0", "\x01", "\x0b", "\x1f", "\x7f", "\x80", "\u00e9",
                  "\u07ff", "\u0800", "\u65e5", "\ud7ff", "\ue000", "\uff61", "\ufffd", "\uffff", "\U00010000",
                  "\U0001f600", "\U0010ffff", "\u2028", "\u2029", " ", "a", "Z", "0"]
INTEGERS = [0, 1, -1, 9, 10, 2**31, -2**31, LARGEST - 1, LARGEST, -LARGEST]
WIDE_INTEGERS = [LARGEST + 1, -LARGEST - 1, 2**63 - 1, -2**63, 2**63, 2**64 - 1]
ODD_NUMBERS = ["1.0", "-0.0", "0.0", "0.5", "-1.5", "1e3", "1E+2", "1e-5", "1.25e-4", "123456.789", "1e15", "1e16",
               "1e17", "12345678901234567.0", "1e22", "1e23", "1.7976931348623157e308", "5e-324",
               "2.2250738585072014e-308",
               "1e400", "-1e400", "1e-400", "18446744073709551616", "-9223372036854775809", "1" + "0" * 30,
               "9" * 400, "0.1", "100.0", "-0"]
BROKEN = ["", " ", "{", "[1,]", "{\"a\":1,}", "nul", "01", "[1 2]", "[+1]", "[.5]", "[1.]", "[-]", "[NaN]",
          "[Infinity]", "[-Infinity]", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":[],\"\\u0062\":1}}", "[\"\\ud800\"]",
          "[\"\\udc00x\"]",
          "[\"\\ud83d\\u0041\"]", "{\"\\udbff\":1}", "[\"\\x\"]", "[\"\\u12g4\"]", "\"a", "[\"\t\"]", "{'a':1}", "[1]]",
          "[1]x", "[tru]", "{\"a\":1e}", "[012345678901234567890]", "[" * 101 + "]" * 101, "[" * 100 + "]" * 100,
          "[" * 99 + "{}" + "]" * 99, "[" * 500 + "]" * 500, "/**/{}", "[1]\u00a0", "\ufeff{}"]


class Maker:
    """Random JSON texts; what they spell differently has one canonical form."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.wide = False  # numbers that strict rooms refuse

    def text(self) -> str:
        r = self.random
        return "".join(r.choice(ODD_CHARACTERS) if r.random() < 0.6 else chr(r.choice([r.randrange(32, 127),
                       r.randrange(0xa0, 0xd800), r.randrange(0xe000, 0x110000)])) for _ in range(r.randrange(0, 9)))

    def spell(self, text: str) -> str:
        """A JSON string, some characters escaped without need."""
        out = []
        for c in text:
            kind = self.random.random()
            if kind < 0.15:
                units = c.encode("utf-16-be")
                digits = [units[i:i + 2].hex() for i in range(0, len(units), 2)]
                out.append("".join("\\u" + (d.upper() if kind < 0.07 else d) for d in digits))
            elif c == "/" and kind < 0.5:
                out.append("\\/")
            else:
                out.append(json.dumps(c, ensure_ascii=False)[1:-1])
        return '"' + "".join(out) + '"'

    def number(self) -> str:
        r = self.random
        if self.wide and r.random() < 0.5:
            kind = r.random()
            if kind < 0.5:
                return r.choice(ODD_NUMBERS)
            if kind < 0.7:
                return str(r.choice(WIDE_INTEGERS))
            if kind < 0.85:
                return repr(r.uniform(-1, 1) * 10.0 ** r.randrange(-320, 309))
            return f"{r.randrange(-10**6, 10**6)}.{r.randrange(10**6)}e{r.randrange(-30, 30)}"
        return str(r.choice(INTEGERS) if r.random() < 0.4 else r.randint(-LARGEST, LARGEST))

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "\t", "  ", " \r "])

    def value(self, depth: int) -> str:
        kind = self.random.random()
        if depth > 0 and kind < 0.3:
            return self.object(depth)
        if depth > 0 and kind < 0.5:
            items = [self.space() + self.value(depth - 1) + self.space() for _ in range(self.random.randrange(0, 5))]
            return "[" + ",".join(items) + "]"
        if kind < 0.7:
            return self.spell(self.text())
        if kind < 0.9:
            return self.number()
        return self.random.choice(["null", "true", "false", "{}", "[]"])

    def join(self, members: list[tuple[str, str]]) -> str:
        self.random.shuffle(members)
        return "{" + ",".join(f"{self.space()}{self.spell(k)}{self.space()}:{self.space()}{v}{self.space()}"
                              for k, v in members) + "}"

    def object(self, depth: int) -> str:
        keys = list({self.text() for _ in range(self.random.randrange(0, 7))})
        return self.join([(key, self.value(depth - 1)) for key in sorted(keys)])

    def event(self) -> str:
        r = self.random
        kinds = ["m.room.member", "m.room.create", "m.room.join_rules", "m.room.power_levels", "m.room.aliases",
                 "m.room.history_visibility", "m.room.redaction", "m.room.message"]
        names = ["membership", "join_authorised_via_users_server", "creator", "room_version", "join_rule", "allow",
                 "ban", "events", "events_default", "invite", "kick", "redact", "state_default", "users",
                 "users_default",
                 "notifications", "history_visibility", "aliases", "redacts", "body", "third_party_invite"]
        content = [(name, self.value(2)) for name in names if name != "third_party_invite" and r.random() < 0.5]
        if r.random() < 0.6:
            inner = [(name, self.value(1)) for name in ("signed", "display_name") if r.random() < 0.7]
            content.append(("third_party_invite", self.join(inner) if r.random() < 0.9 else self.value(1)))
        top = ["event_id", "state_key", "depth", "prev_events", "auth_events", "prev_state", "origin", "membership",
               "origin_server_ts", "room_id", "sender", "redacts", "unsigned", "age_ts", "hashes", "other"]
        members = [(name, self.value(1)) for name in top if r.random() < 0.7]
        members.append(("type", self.spell(r.choice(kinds))))
        if r.random() < 0.95:
            members.append(("content", self.join(content) if r.random() < 0.95 else self.value(1)))
        if r.random() < 0.5:
            entries = [(name, self.join([("ed25519:1", '"x"'), ("ed25519:2", self.value(1))][:r.randrange(3)]))
                       for name in ("domain", "other") if r.random() < 0.7]
            members.append(("signatures", self.join(entries)))
        return self.join(members)

    def document(self) -> str:
        self.wide = self.random.random() < 0.35
        kind = self.random.random()
        text = self.event() if kind < 0.5 else self.object(5) if kind < 0.85 else self.value(6)
        if self.random.random() < 0.05:  # most cuts leave no JSON
            text = text[:self.random.randrange(len(text) + 1)]
        return text


def main() -> int:
    probe = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20240229
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 4000
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    maker = Maker(seed)
    texts = BROKEN + [f"[{n}]" for n in ODD_NUMBERS + INTEGERS + WIDE_INTEGERS]
    texts += [maker.document() for _ in range(count)]
    texts = [text.replace("\n", " ") for text in texts]
    done = subprocess.run([probe], input="\n".join(texts).encode() + b"\n", stdout=subprocess.PIPE, check=True,
                          timeout=300)
    answers = done.stdout.decode().split("\n")[:-1]
    if len(answers) != len(texts):
        print(f"The probe answered {len(answers)} of {len(texts)} lines.")
        return 1
    names = ["strict", "lenient", "signature"] + [f"event of version {v}" for v in VERSIONS]
    wrong = refused = 0
    for text, answer in zip(texts, answers):
        fields, wanted = answer.split("\t"), expected(text)
        refused += wanted[0].startswith("!")
        for name, got, want in zip(names, fields, wanted):
            if got != want:
                wrong += 1
                if wrong <= 10:
                    print(f"{name} of {text!r}\n  ours:   {got!r}\n  Python: {want!r}")
        if len(fields) != len(wanted):
            wrong += 1
            print(f"{len(fields)} fields instead of {len(wanted)} for {text!r}")
    print(f"{len(texts)} documents with seed {seed}, {refused} of them refused in strict rooms: {wrong} differences.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
