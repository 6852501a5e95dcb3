"""The rig of the black-box tests: the real engine over real TLS on loopback, against scripted homeservers.

A test imports what it needs from here: `from rig import Rig, case, check, ...`.
"""
from .cases import CASES, SPLITS, Case, Failure, case, check, equal, in_order, steady, until, until_async
from .collector import Collector
from .engine import Engine
from .exchange import Answer, Hold, Request, Rule, Transaction, error, quote
from .fixture import Rig, failing, has, ids_of, meet, unreached, user
from .matrix import Json
from .network import Network
from .peer import Peer
from .process import Done, EngineError, binary, free_port, render, run_command
from .records import (HostRoom, cross_signing, device, device_gone, edu, membership, pdu, receipt, roster, to_device,
                      typing)
from .tls import Authority

__all__ = [name for name in dir() if not name.startswith("_")]
