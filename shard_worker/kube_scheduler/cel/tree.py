"""The tree of a CEL expression: built by :mod:`.syntax`, evaluated by :mod:`.evaluate`."""

from __future__ import annotations

from dataclasses import dataclass


class CelError(Exception):
    """An expression is malformed or has no value. The message says why."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: object


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    of: Node
    field: str


@dataclass(frozen=True, slots=True)
class Has:
    """``has(of.field)``."""

    of: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    of: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. ``target``: the receiver; None for a global function."""

    name: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """A macro over a list, or the keys of a map."""

    kind: str  # all | exists | exists_one | map | filter
    over: Node
    name: str
    body: Node
    where: Node | None = None
    """Condition of ``map`` with a filter: elements to keep."""


@dataclass(frozen=True, slots=True)
class Bind:
    name: str
    value: Node
    body: Node


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    pairs: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """``&&`` or ``||`` with all operands of a chain."""

    op: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of equal precedence, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Sign:
    op: str  # ! | -
    of: Node


@dataclass(frozen=True, slots=True)
class Choose:
    when: Node
    then: Node
    otherwise: Node


Node = (
    Literal
    | Name
    | Select
    | Has
    | Index
    | Call
    | Fold
    | Bind
    | ListOf
    | MapOf
    | Logic
    | Chain
    | Sign
    | Choose
)


@dataclass(frozen=True, slots=True)
class Uint:
    """An unsigned integer (uint64)."""

    value: int
