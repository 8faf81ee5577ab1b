"""A server in memory that runs the ledger's scripts, with the commands that they call.

Lua is the server's (5.1, by lupa); ``server.lua`` has the commands on hashes and the packing. One
state of Lua serves all servers of a process, one call after the other: lupa locks it meanwhile.
"""

from __future__ import annotations

import hashlib
import re
import struct
from binascii import crc32, hexlify
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from lupa.lua51 import LuaError, LuaRuntime, lua_type
from redis.exceptions import NoScriptError, ResponseError

from shared.ledger.memory.streams import Stream, id_of, number_of

_TEXT = Path(__file__).with_name("server.lua")
_PAGE = 2000
"""Fields and values that are handed over in one call: Lua's stack takes 8,000."""
_UNITS = {b"I4": "I", b"i4": "i", b"I2": "H"}
"""Units of Lua's struct that have another name in Python's."""


@dataclass(frozen=True, slots=True)
class ServerCopy:
    """A copy of a server's data, as of a moment."""

    data: Any
    """Hashes and texts, by their keys."""
    streams: dict[bytes, Stream]


class MemoryServer:
    """``clock`` gives the server's time in seconds; ``nonce`` the id of each of its runs;
    ``streams`` are there from the beginning."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        nonce: Callable[[], str],
        streams: Collection[bytes] = (),
    ) -> None:
        self._clock = clock
        self._nonce = nonce
        self._lua = LUA
        self._scripts: dict[str, Any] = {}
        self.run_id = nonce()
        self._streams = {name: Stream() for name in streams}
        self._data = self._lua.runtime.table_from(self._streams)

    # --- restarts and copies ------------------------------------------------------------------

    def restart(self) -> None:
        """Behave as if it had been killed and started again: everything durable, another run."""
        self._scripts.clear()
        self.run_id = self._nonce()

    def copy(self) -> ServerCopy:
        return ServerCopy(self._lua.copy(self._data), _copies(self._streams))

    def bring_back(self, copied: ServerCopy) -> None:
        """Behave as if it had been killed and started again with a copy of its data."""
        self._data, self._streams = self._lua.copy(copied.data), _copies(copied.streams)
        for name, stream in self._streams.items():
            self._data[name] = stream
        self.restart()

    # --- commands -------------------------------------------------------------------------------

    def call(self, name: bytes, *args: bytes | float) -> Any:
        """A command on hashes, with the answer that a client gets."""
        return _answer(self._lua.command(self._data, name, *args))

    def load(self, text: bytes) -> None:
        sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        self._scripts[sha] = compiled(text)

    def evalsha(self, sha: str, count: int, *args: bytes) -> Any:
        """Errors: NoScriptError; ResponseError with what the script says."""
        script = self._scripts.get(sha)
        if script is None:
            raise NoScriptError("No matching script")
        now = self._clock()
        seconds = int(now)
        moment = (b"%d" % seconds, b"%d" % ((now - seconds) * 1e6))
        run, keys = f"run_id:{self.run_id}".encode(), _keys(args[:count])
        try:
            return _answer(self._lua.evalsha(script, self._data, *moment, run, keys, *args[count:]))
        except LuaError as error:
            message = str(error).partition("\nstack traceback:")[0]
            raise ResponseError(message.encode("latin-1").decode(errors="replace")) from None
        except struct.error as error:  # of numbers too large the server keeps the lower bytes
            raise ResponseError(f"struct: {error}") from None

    def hash(self, key: bytes) -> dict[bytes, bytes]:
        table = self._data[key]
        flat: list[bytes] = []
        while table is not None:
            part = self._lua.page(table, flat[-2] if flat else None, _PAGE) or ()
            flat += part
            if len(part) < _PAGE:
                break
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def text(self, key: bytes) -> bytes | None:
        text: bytes | None = self._data[key]
        return text

    def stream(self, key: bytes) -> Stream:
        return self._streams[key]


def _copies(streams: dict[bytes, Stream]) -> dict[bytes, Stream]:
    return {name: stream.copy() for name, stream in streams.items()}


class _Lua:
    """The state of Lua, and what ``server.lua`` offers to Python."""

    def __init__(self) -> None:
        self.runtime = LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        parts = self.runtime.execute(
            _TEXT.read_bytes(), self.runtime.table_from(self._python_functions())
        )
        self.evalsha, self.command, self.page, self.copy = parts

    def _python_functions(self) -> dict[bytes, Callable[..., Any]]:
        return {
            b"pack": _pack,
            b"pack_fraction": _pack_fraction,
            b"unpack": _unpack,
            b"sha1hex": _sha1hex,
            b"checksum": crc32,
            b"add": Stream.add,
            b"range": self._range,
            b"pending": self._pending,
            b"groups": self._groups,
        }

    def _table(self, values: list[Any]) -> Any:
        return self.runtime.table_from(values, recursive=True)

    def _range(self, stream: Stream, first: bytes, last: bytes, *limit: Any) -> Any:
        entries = stream.between(first, last)[: int(limit[1]) if limit else None]
        return self._table([[id_of(n), list(chain(*fields.items()))] for n, fields in entries])

    def _pending(self, stream: Stream, name: bytes, *bounds: Any) -> Any:
        pending = sorted(stream.group(name).pending)
        if not bounds:
            ends = [id_of(pending[0]), id_of(pending[-1])] if pending else [False, False]
            return self._table([len(pending), *ends])
        first, last, most = *(number_of(bound.decode()) for bound in bounds[:2]), int(bounds[2])
        inside = [number for number in pending if first <= number <= last][:most]
        return self._table([[id_of(number)] for number in inside])

    def _groups(self, stream: Stream) -> Any:
        groups = [
            [b"name", name, b"last-delivered-id", id_of(group.delivered)]
            for name, group in stream.groups.items()
        ]
        return self._table(groups)


@cache
def compiled(text: bytes) -> Any:
    """A script as a function of Lua."""
    return LUA.runtime.compile(text)


@cache
def _keys(keys: tuple[bytes, ...]) -> Any:
    """As a table, which the scripts of a writer have in common: none of them changes it."""
    return LUA.runtime.table_from(keys)


# --- what Lua calls of Python --------------------------------------------------------------------


@cache
def _layout(form: bytes) -> struct.Struct:
    return struct.Struct(re.sub(rb"[Ii]4|I2", lambda unit: _UNITS[unit[0]].encode(), form).decode())


def _pack(form: bytes, *values: float) -> bytes:
    return _layout(form).pack(*values)


def _pack_fraction(number: float) -> bytes:
    """In 4 bytes where they hold it exactly, else in 8, as the server's cmsgpack does."""
    with suppress(OverflowError):
        short = struct.pack(">Bf", 0xCA, number)
        if struct.unpack_from(">f", short, 1)[0] == number:
            return short
    return struct.pack(">Bd", 0xCB, number)


def _unpack(form: bytes, data: bytes, at: int = 1) -> tuple[Any, ...]:
    """The values, and the position after them."""
    layout = _layout(form)
    return (*layout.unpack_from(data, at - 1), at + layout.size)


def _sha1hex(data: bytes) -> bytes:
    return hexlify(hashlib.sha1(data, usedforsecurity=False).digest())


# --- answers ------------------------------------------------------------------------------------


def _answer(parts: Any) -> Any:
    """The answer that a client gets, of what ``answer`` in server.lua returns."""
    if parts is True:
        return []
    flat, *values = parts
    return [_plain(value) for value in values] if flat else _plain(values[0])


def _plain(value: Any) -> Any:
    if value is False:
        return None
    if value is True or isinstance(value, float):
        return int(value)
    if lua_type(value) == "table":
        return [_plain(item) for item in value.values()]
    return value


LUA = _Lua()
"""The one state of Lua in this process."""
