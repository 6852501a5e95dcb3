"""Servers with names: a DNS server of their own, and addresses where discovery looks (443 and 8448 of 127.x.y.z)."""
from __future__ import annotations

import itertools
import os
import random
from typing import Any

from .dns import Dns
from .fixture import Rig
from .peer import Peer

# Tests run at the same time, in several processes: each address is bound, and another one taken if that fails.
_numbers = itertools.count(random.Random(os.getpid()).randrange(1 << 16))


class Names:
    """`await Names.of(rig)`; engines need `federation=names.config()`."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.dns = Dns()

    @classmethod
    async def of(cls, rig: Rig) -> "Names":
        made = cls(rig)
        await made.dns.start()
        rig.closers.append(made.dns.close)
        return made

    def config(self, **more: Any) -> dict[str, Any]:
        return {"dns_servers": [self.dns.at], **more}

    def bind(self, port: int, net: int = 96) -> str:
        """An address of 127.net.0.0/16 (or of the 15 above it) with this port open."""
        for _ in range(100):
            n = next(_numbers)
            ip = f"127.{net + (n >> 15 & 15)}.{n >> 8 & 127}.{n & 255 or 1}"
            if self.rig.net.by_ip(ip):
                continue
            try:
                self.rig.net.listen(ip, port)
                return ip
            except OSError:
                continue
        raise AssertionError(f"no address of 127.{net}.0.0/16 has port {port} free")

    def _place(self, label: str, ip: str, host: str, names: list[str], addresses: list[str], **tls: Any) -> Peer:
        peer = self.rig.net.named(label, ip)
        peer.host = host
        peer.context = self.rig.authority.server_context(names, addresses, hear=peer.sni.append, **tls)
        return peer

    def server(self, name: str, *, port: int = 8448, host: str = "", certificate: str = "", ip: str = "",
               net: int = 96, **tls: Any) -> Peer:
        """The homeserver `name`, at `port` of an address of its own, with a certificate for the name it is asked by."""
        if not ip:
            ip = self.bind(port, net)
        else:
            self.rig.net.listen(ip, port)
        wanted = certificate or name.partition(":")[0]
        is_ip = wanted.replace(".", "").isdigit()
        return self._place(name, ip, host or name, [] if is_ip else [wanted], [wanted] if is_ip else [], **tls)

    def site(self, host: str, answer: Any = None, *, net: int = 96, **tls: Any) -> Peer:
        """What serves https://host/, known to DNS. `answer`: m.server of its .well-known file; None: 404."""
        ip = self.bind(443, net)
        self.dns.a(host, ip)
        peer = self._place(f"site {host}", ip, host, [host], [], **tls)
        if answer is not None:
            self.delegate(peer, answer)
        return peer

    @staticmethod
    def delegate(site: Peer, server: str, **headers: str) -> None:
        site.answer("/.well-known/", 200, {"m.server": server},
                    headers={k.replace("_", "-"): v for k, v in headers.items()})


def looked(site: Peer) -> int:
    """How often its .well-known file was asked for."""
    return len(site.asked("/.well-known/matrix/server"))
