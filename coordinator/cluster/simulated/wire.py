"""Frames between the cluster process and its client.

A frame is a 4-byte big-endian length and a message of that length: msgpack, sealed
(:mod:`shared.codec.checked`) together with the length. A request is ``[number, method,
arguments]``; its answer is ``[number, error, result]`` with error "" on success. Answers come in
any order and are matched by number. A malformed message closes the connection.
"""

from __future__ import annotations

import asyncio
import struct
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from shared.codec.checked import SEAL, Malformed, seal, unpack_sealed

MAX_FRAME = 64 * 2**20
"""Maximum bytes; a longer frame can only come from a broken or foreign peer, and closes the
connection."""

_HEAD = struct.Struct(">I")


def frame(message: Any) -> bytes:
    """Encode a message as a frame."""
    body = msgspec.msgpack.encode(message)
    length = len(body) + SEAL
    return _HEAD.pack(length) + seal(_kind(length), body)


def unframe(data: bytes) -> Any:
    """Decode one whole frame. Errors: Malformed."""
    if len(data) < _HEAD.size:
        raise Malformed("frame: cut")
    (length,) = _HEAD.unpack_from(data)
    return unpack_sealed(_kind(length), data[_HEAD.size :])


def _kind(length: int) -> bytes:
    return b"frame of %d" % length


class FrameProtocol(asyncio.Protocol, ABC):
    """Splits a byte stream into messages."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    @abstractmethod
    def message_received(self, message: Any) -> None:
        """One whole message came."""

    def send(self, message: Any) -> None:
        """Queue a message. Messages to a closed connection are dropped."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while len(self._buffer) >= start + _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer, start)
            end = start + _HEAD.size + length
            # Before waiting for the rest: a broken length would have the buffer grow for ever.
            if length > MAX_FRAME:
                self._drop()
                return
            if len(self._buffer) < end:
                break
            try:
                message = unframe(bytes(self._buffer[start:end]))
            except Malformed:
                self._drop()
                return
            start = end
            self.message_received(message)
        # Once for all messages of a read: cut off one by one, many small ones would be copied again
        # and again.
        del self._buffer[:start]

    def _drop(self) -> None:
        self._buffer.clear()
        if self.transport is not None:
            self.transport.abort()
