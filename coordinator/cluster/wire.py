"""Frames between the cluster process and its client.

A frame is a 4-byte big-endian length and that many bytes of msgpack. A request is
``[number, method, arguments]``; its answer is ``[number, error, result]`` with error "" where all
went well. Answers come in any order; the number tells which request they belong to.
"""

from __future__ import annotations

import asyncio
import struct
from abc import ABC, abstractmethod
from typing import Any

import msgpack

from shared.messages import decode, encode

MAX_FRAME = 64 * 2**20
"""Bytes; a longer frame can only be a broken or foreign peer, and closes the connection."""

_HEAD = struct.Struct(">I")


class FrameProtocol(asyncio.Protocol, ABC):
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    @abstractmethod
    def message_received(self, message: Any) -> None:
        """One whole message came."""

    def send(self, message: Any) -> None:
        """Queue one message; what is sent to a closed connection is lost, as on any connection."""
        if self.transport is not None and not self.transport.is_closing():
            body = encode(message)
            self.transport.write(_HEAD.pack(len(body)) + body)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while len(self._buffer) >= start + _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer, start)
            end = start + _HEAD.size + length
            if length > MAX_FRAME:
                self._drop()
                return
            if len(self._buffer) < end:
                break
            try:
                message = decode(bytes(self._buffer[start + _HEAD.size : end]))
            except (ValueError, msgpack.UnpackException):
                self._drop()
                return
            start = end
            self.message_received(message)
        del self._buffer[:start]

    def _drop(self) -> None:
        self._buffer.clear()
        if self.transport is not None:
            self.transport.abort()
