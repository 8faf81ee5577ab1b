"""A parser process: requests on standard input, answers on standard output.

It is stateless between requests and ends with its input: so it ends with the service, however that
ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from coordinator.api.parser.frames import FrameKind, answer_frame, read_request
from coordinator.api.parser.tasks import perform, said_of_problem, said_of_text_error
from coordinator.errors import Problem
from shared.manifests.text.errors import TextError


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Serve requests until the end of ``source``."""
    while (request := read_request(source)) is not None:
        began = time.process_time()
        for letter, content in _answer(*request):
            sink.write(answer_frame(letter, content))
            sink.flush()
        spent = orjson.dumps(time.process_time() - began)
        sink.write(answer_frame(FrameKind.DONE, spent))
        sink.flush()
        request = None  # a large body is not kept until the next one comes


def _answer(request: dict[str, Any], body: bytes) -> Iterator[tuple[FrameKind, bytes]]:
    """The parts of an answer; after an error, an error frame in place of the rest."""
    try:
        for part in perform(request, body):
            yield FrameKind.PART, part
    except Problem as error:
        yield FrameKind.PROBLEM, orjson.dumps(said_of_problem(error))
    except TextError as error:
        yield FrameKind.TEXT_ERROR, orjson.dumps(said_of_text_error(error))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the service ends us in order
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(0)  # the service is gone: nobody to flush for


if __name__ == "__main__":
    main()
