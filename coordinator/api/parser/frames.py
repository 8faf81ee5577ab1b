"""What travels between the service and a parser process, over the pipes of the latter.

A request is its length, the length of the body, the request as JSON, and the body. An answer is a
row of frames, each a letter, a length and so many bytes: parts (JSON lists of values), what is
wrong where anything is, and one that ends it.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any, BinaryIO

import orjson

REQUEST = struct.Struct(">II")
FRAME = struct.Struct(">cI")
LONGEST_FRAME = 64 << 20
"""Bytes: more than the largest answer to the largest body."""


class Letter(Enum):
    PART = b"p"
    DONE = b"d"
    """Processor seconds that it took, as JSON."""
    TEXT_ERROR = b"t"
    PROBLEM = b"x"


def request_frame(request: dict[str, Any], body: bytes) -> bytes:
    """The head of a request; the body follows it."""
    head = orjson.dumps(request)
    return REQUEST.pack(len(head), len(body)) + head


def answer_frame(letter: Letter, content: bytes) -> bytes:
    return FRAME.pack(letter.value, len(content)) + content


def read_request(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """None at the end of the stream, where the service has closed it or is gone."""
    head = stream.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    size, body_size = REQUEST.unpack(head)
    head_bytes, body = stream.read(size), stream.read(body_size)
    if len(head_bytes) < size or len(body) < body_size:
        return None
    request: dict[str, Any] = orjson.loads(head_bytes)
    return request, body
