"""The common form of all specifications: their format number, and fields by the class's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints

import msgspec
from msgspec.structs import astuple

from shared.codec.packed import Codec, Packed

P = TypeVar("P", bound=Packed)

FORMAT: Final = 3
"""Moves when a field is added, removed or changes its meaning."""

BEFORE: Final = 2
"""The format before, which is read too: a cluster is upgraded while it runs. What it had no field
for is as if nothing of it were said."""

Either = Literal[2, 3]
"""The format number of a record that is the same in both."""

_WIDE = b"\xdc"
"""The first byte of an array of more than 15 items; their number is in the next two."""


class Spec(Generic[P]):
    """The record of one class: an array of the format number and the fields.

    ``first``: how many fields are in that array. The remaining ones, which few records set, are a
    nested array in the last place, or None if all of them have their defaults. ``optional``: how
    many fields may be left out at the end of the last array; each is, if it and those behind it
    have their defaults. ``before``: the number of fields in the previous format, or their types; 0
    if that format is not read. ``stored``: types of fields whose stored form differs.
    """

    def __init__(
        self,
        kind: str,
        of: type[P],
        *,
        first: int | None = None,
        optional: int = 0,
        before: int | tuple[object, ...] = 0,
        stored: dict[str, object] | None = None,
    ) -> None:
        hints = get_type_hints(of, include_extras=True) | (stored or {})
        types = [hints[name] for name in of.__struct_fields__]
        old = types[:before] if isinstance(before, int) else before
        self._of = of
        self._first = len(types) if first is None else first
        self._rest: tuple[Any, ...] = ()
        self._optional = of.__struct_defaults__[-optional:] if optional else ()
        left_out = self._optional
        if first is not None:
            self._rest = of.__struct_defaults__[first - len(types) :]
            types[first:] = [_array(types[first:], left_out) | None]
            left_out = ()
        self._now = Codec(kind.encode(), _array([Literal[3], *types], left_out))
        self._before = Codec(kind.encode(), _array([Literal[2], *old])) if before else self._now

    def encode(self, value: P) -> bytes:
        return self.pack(astuple(value))

    def pack(self, fields: tuple[Any, ...]) -> bytes:
        """``fields``: those of the class, in the form in which they are stored."""
        nothing_more = fields[self._first :] == self._rest
        for default in reversed(self._optional):
            if fields[-1] != default:
                break
            fields = fields[:-1]
        first, rest = fields[: self._first], fields[self._first :]
        more = ((None if nothing_more else rest),) if self._rest else ()
        return self._now.encode((FORMAT, *first, *more))

    def decode(self, data: bytes) -> P:
        """Errors: Malformed."""
        return self._of(*self.unpack(data))

    def unpack(self, data: bytes) -> list[Any]:
        """The fields in the form in which they are stored; those that it has not are left out.
        Errors: Malformed."""
        version = data[3:4] if data[:1] == _WIDE else data[1:2]
        codec = self._before if version == bytes((BEFORE,)) else self._now
        _, *fields = astuple(codec.decode(data))
        if self._rest and codec is self._now:
            fields[-1:] = astuple(fields[-1]) if fields[-1] else ()
        return fields


def _array(types: Sequence[object], defaults: tuple[object, ...] = ()) -> Any:
    """An array of values of these types; the last ones may have defaults."""
    fields: list[Any] = [(f"field_{at}", kind) for at, kind in enumerate(types)]
    for at, default in enumerate(defaults, start=len(fields) - len(defaults)):
        fields[at] += (default,)
    return msgspec.defstruct("Array", fields, array_like=True, forbid_unknown_fields=True)
