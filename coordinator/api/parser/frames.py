"""The protocol between the service and a parser process, over the latter's pipes.

A request is its length, the length of the body, the request as JSON, and the body. An answer is a
sequence of frames, each a letter, a length and a payload: parts (JSON lists of values), an error if
there is one, and a final frame.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any, BinaryIO

import orjson

REQUEST = struct.Struct(">II")
FRAME = struct.Struct(">cI")
LONGEST_FRAME = 64 << 20
"""Maximum bytes: more than the largest answer to the largest body."""


class FrameKind(Enum):
    PART = b"p"
    DONE = b"d"
    """Payload: processor seconds used, as JSON."""
    TEXT_ERROR = b"t"
    PROBLEM = b"x"


def request_frame(request: dict[str, Any], body: bytes) -> bytes:
    """The head of a request, which the body follows."""
    head = orjson.dumps(request)
    return REQUEST.pack(len(head), len(body)) + head


def answer_frame(letter: FrameKind, content: bytes) -> bytes:
    return FRAME.pack(letter.value, len(content)) + content


def read_request(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a request; None at the end of the stream, when the service closed it or is gone."""
    head = stream.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    size, body_size = REQUEST.unpack(head)
    head_bytes, body = stream.read(size), stream.read(body_size)
    if len(head_bytes) < size or len(body) < body_size:
        return None
    request: dict[str, Any] = orjson.loads(head_bytes)
    return request, body
