"""Devices of any kind, as annotations of ours name them on nodes and pods.

A node names its own in ``quadrant.dev/devices``; ``quadrant.dev/assigned-devices`` has what a pod
takes. Both are JSON objects: the name of a device -> how much of it, one amount or a list of up to
four (:mod:`shared.units.things`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson

from shared.units.things import DIMENSIONS, LONGEST_NAME, Things, Vector, is_port

DEVICES = "quadrant.dev/devices"
"""Annotation of a node: what it has of each device."""
ASSIGNED_DEVICES = "quadrant.dev/assigned-devices"
"""Annotation of a pod: what it has of devices of its node. Set by the server."""

VGPU = "vgpu/"
GPU = "gpu/"
"""Prefixes of devices that nodes declare, and pods are told of, in Volcano's way."""
MOST_DEVICES = 64
"""Devices of one kind of a node. Kubernetes nodes have up to 16."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?")
_EXAMPLE = 'write for example {"card/0": 1000, "card/1": 1000}'


def is_volcanos(name: str) -> bool:
    return name.startswith((VGPU, GPU))


def read_devices(text: str) -> Things:
    """The devices of an annotation, sorted by name. Errors: ValueError, with the remedy."""
    try:
        written = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"no JSON ({error}); {_EXAMPLE}") from None
    if not isinstance(written, dict) or len(written) > MOST_DEVICES:
        raise ValueError(f"not an object of at most {MOST_DEVICES} devices; {_EXAMPLE}")
    return tuple(
        sorted((_name(name), _amounts(name, amounts)) for name, amounts in written.items())
    )


def devices_of(annotations: Mapping[str, str], key: str) -> Things:
    """Read a task's devices from the annotation; none where it is absent or cannot be read."""
    try:
        return read_devices(annotations[key]) if key in annotations else ()
    except ValueError:
        return ()


def written_devices(devices: Things) -> str:
    """The inverse of :func:`read_devices`: single amounts as numbers."""
    short = {name: amounts[0] if len(amounts) == 1 else amounts for name, amounts in devices}
    return orjson.dumps(short).decode()


def _name(name: str) -> str:
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name[:LONGEST_NAME]!r} is no name of a device; use at most {LONGEST_NAME} letters, "
            "digits, '-', '_', '.' or '/', for example card/0"
        )
    if is_port(name) or is_volcanos(name):
        prefix = name.partition("/")[0]
        raise ValueError(f"names of {prefix}/ are not free; call it for example my-{name}")
    return name


def _amounts(name: str, held: object) -> Vector:
    amounts = held if isinstance(held, list) else [held]
    if not 0 < len(amounts) <= DIMENSIONS or not all(map(_is_amount, amounts)) or not any(amounts):
        raise ValueError(
            f"{name}: write one amount, or a list of up to {DIMENSIONS}; whole numbers from 0 to "
            "2**53 - 1, not all of them 0"
        )
    return tuple(amounts)


def _is_amount(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53
