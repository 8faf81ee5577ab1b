"""Named things of a node: what tasks take by its name, not by an amount of something alike.

A slot is a quantity: any part of it is as good as any other, every node and every queue counts it,
so there may be few of them. A thing has an identity: host port 8080 of a node, one device of it.
Most nodes have nobody on most things, so only those in use are written down, each in a record of
its own (``docs/decisions/0038``).

A thing's name begins with its kind. Its amounts are a small vector, one number for each dimension
of the kind:

==========================  ==========  ===========================================
name                        dimensions  a node has of it
==========================  ==========  ===========================================
``port/PROTOCOL/NUMBER``    1           (1,), without saying so
every other                 up to 4     what the node declares
==========================  ==========  ===========================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Vector = tuple[int, ...]
"""Amounts of one thing, by dimension; integers below 2**53."""
Things = tuple[tuple[str, Vector], ...]
"""A task's things: (name, amounts) sorted by name, with at least one amount above 0 each."""

DIMENSIONS = 4
"""Maximum number of dimensions of a thing: a device has memory and cores, and two are spare."""
LONGEST_NAME = 128
"""Maximum bytes of a name. A host port takes 14; a device is named by driver, pool and device."""

PORT = "port/"
PORTS_OF_A_POD = 32
"""Maximum number of host ports of a pod.

Each is a record that the ledger's script reads, checks and writes in the commit: 6 us of the
server's thread apiece, measured on 2 cores with Valkey 9.1 (16 ports: 24 ms for a batch of 256 such
pods; 64: 102 ms). With this bound a full batch takes 50 ms. Pods that publish more are proxies;
they use the host's network and announce their ports in another way.
"""


def port_name(protocol: str, number: int) -> str:
    """The thing name of a host port. The address is left out: see :func:`is_port`."""
    return f"{PORT}{protocol}/{number}"


def is_port(name: str) -> bool:
    """Whether the thing is a host port.

    Host ports are compared by protocol and number. Kubernetes lets two pods use one number on
    different addresses (``hostIP``); here a pod takes it on all addresses, which is stricter and
    never binds what the kubelet would refuse.
    """
    return name.startswith(PORT)


def port_text(name: str) -> str:
    """A host port as people write it: ``8080/TCP``."""
    _, protocol, number = name.split("/")
    return f"{number}/{protocol}"


def joined_devices(taken: Iterable[tuple[str, Sequence[int]]]) -> Things:
    """Sum the devices of one task, each named once. Raises ValueError for amounts or names that the
    ledger would refuse."""
    total: dict[str, Vector] = {}
    for name, amounts in taken:
        if not 0 < len(name.encode()) <= LONGEST_NAME or "\0" in name or is_port(name):
            raise ValueError(f"{name!r} is no name of a device; write for example gpu/0")
        size = max(len(amounts), len(total.get(name, ())))
        if name in total:
            padded = [(*of, *(0,) * (size - len(of))) for of in (total[name], amounts)]
            total[name] = tuple(int(a) + int(b) for a, b in zip(*padded, strict=True))
        else:
            total[name] = tuple(map(int, amounts))
        if not 0 < size <= DIMENSIONS or not all(0 <= n < 2**53 for n in total[name]):
            raise ValueError(f"{name}: write 1 to {DIMENSIONS} whole amounts below 2**53")
    return tuple(sorted(total.items()))


NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
"""The text of Kubernetes' plugin NodePorts."""


def lacking(name: str) -> str:
    """The reason text for a node that lacks this thing."""
    return NO_FREE_PORTS if is_port(name) else f"Insufficient {name}"


def implied(name: str, dimensions: int) -> Vector:
    """Amount that every node offers of a thing without declaring it."""
    return (1 if is_port(name) else 0,) * dimensions
