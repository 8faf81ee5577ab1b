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

Vector = tuple[int, ...]
"""Amounts of one thing, by dimension; whole numbers below 2**53."""
Things = tuple[tuple[str, Vector], ...]
"""(name, amounts) sorted by name, some amount of each above 0: what one task takes."""

DIMENSIONS = 4
"""The most that a thing has: a device with memory, cores, and two to spare."""
LONGEST_NAME = 128
"""Bytes of a name. A host port takes 14; a device is named by driver, pool and device."""

PORT = "port/"
PORTS_OF_A_POD = 32
"""Host ports that one pod may ask for.

Each is a record that the ledger's script reads, checks and writes in the commit: 6 us of the
server's thread apiece, measured on 2 cores with Valkey 9.1 (16 ports: 24 ms a batch of 256 such
pods; 64: 102 ms). With this bound a full batch holds it for 50 ms. Pods that publish more are
proxies; they take the network of the host and tell their clients the ports by another way."""


def port_name(protocol: str, number: int) -> str:
    """The thing that a host port is. Its address is left out: see :func:`is_port`."""
    return f"{PORT}{protocol}/{number}"


def is_port(name: str) -> bool:
    """Host ports are compared by protocol and number. Kubernetes lets two pods share a number on
    two different addresses (``hostIP``); here the first pod takes it on all of them, which never
    binds what the kubelet would refuse."""
    return name.startswith(PORT)


def port_text(name: str) -> str:
    """A host port as people write it: ``8080/TCP``."""
    _, protocol, number = name.split("/")
    return f"{number}/{protocol}"


NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
"""As Kubernetes' plugin NodePorts says it."""


def lacking(name: str) -> str:
    """The reason text where a node lacks this thing."""
    return NO_FREE_PORTS if is_port(name) else f"Insufficient {name}"


def implied(name: str, dimensions: int) -> Vector:
    """What every node has of a thing without declaring it."""
    return (1 if is_port(name) else 0,) * dimensions
