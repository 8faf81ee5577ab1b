"""The digest of message types: it moves with every change of a field, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import IntEnum
from typing import Annotated, Any

import msgspec
import pytest

from shared.codec.packed import Count, Packed
from shared.codec.type_digest import description, digest


def of(*types: object) -> str:
    return digest(map(description, types))


def message(name: str = "Message", **fields: Any) -> type[msgspec.Struct]:
    """A message with these fields, each a type or (type, default)."""
    members = [
        (field, *(kind if isinstance(kind, tuple) else (kind,))) for field, kind in fields.items()
    ]
    return msgspec.defstruct(name, members, bases=(Packed,), frozen=True)


class Colour(IntEnum):
    RED = 1
    BLUE = 2


BASE = of(message(jid=int, names=list[str], colour=Colour))


@pytest.mark.parametrize(
    "changed",
    [
        message(jid=int, names=list[str], colour=Colour, more=(int, 0)),
        message(jid=int, names=list[str]),
        message(job=int, names=list[str], colour=Colour),
        message(jid=str, names=list[str], colour=Colour),
        message(jid=Count, names=list[str], colour=Colour),
        message(jid=int | None, names=list[str], colour=Colour),
        message(names=list[str], jid=int, colour=Colour),
        message(jid=int, names=tuple[str, ...], colour=Colour),
        message(jid=int, names=list[bytes], colour=Colour),
        message(jid=int, names=list[str], colour=IntEnum("Colour", {"RED": 1, "BLUE": 3})),
        message(jid=int, names=list[str], colour=IntEnum("Colour", {"RED": 1})),
        message("Other", jid=int, names=list[str], colour=Colour),
    ],
    ids=lambda changed: str(description(changed))[:90],
)
def test_a_field_that_is_added_renamed_retyped_or_moved_changes_it(
    changed: type[msgspec.Struct],
) -> None:
    assert of(changed) != BASE


def test_a_change_in_a_message_within_another_changes_it() -> None:
    def outer(inner: type[msgspec.Struct]) -> type[msgspec.Struct]:
        return message("Outer", inner=dict[str, list[inner]])  # type: ignore[valid-type]

    assert of(outer(message(jid=int))) != of(outer(message(jid=int, more=(int, 0))))
    bounded = Annotated[int, msgspec.Meta(le=5)]
    assert of(outer(message(jid=bounded))) != of(outer(message(jid=int)))


def test_defaults_and_module_names_do_not_change_the_digest() -> None:
    """A default, and the module in which a class stands."""
    assert of(message(jid=int, names=list[str], colour=(Colour, Colour.RED))) == BASE
    elsewhere = message(jid=int, names=list[str], colour=Colour)
    elsewhere.__module__ = "elsewhere"
    assert of(elsewhere) == BASE


class DigestedTree(Packed, frozen=True):
    name: str
    below: list[DigestedTree]


def test_a_message_that_has_itself_as_a_field_has_a_digest() -> None:
    assert "again" in str(description(DigestedTree))


_PRINT = """
from shard_worker.worker.wire import SENT, STORED, own_wire
from shared.codec.type_digest import description, digest
print(own_wire(), digest(map(description, [*SENT, *STORED, int | None | str | list[bool]])))
"""


def test_it_is_the_same_in_every_process_and_under_every_hash_seed() -> None:
    def printed(seed: str) -> str:
        result = subprocess.run(
            [sys.executable, "-c", _PRINT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return result.stdout

    assert len({printed(seed) for seed in ("0", "1", "4711")}) == 1
