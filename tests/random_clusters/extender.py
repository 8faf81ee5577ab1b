"""An HTTP extender that answers at random, but the same to the same question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from zlib import crc32

REFUSES = 8
"""One node in so many is refused."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps(_answer(self.path.rpartition("/")[2], json.loads(body), crc32(body)))
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        with suppress(BrokenPipeError):  # who asked has no time left
            self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        pass


def _answer(verb: str, question: dict[str, list[dict[str, str]]], chance: int) -> object:
    match verb:
        case "predicate":
            return {"code": int(chance % REFUSES == 0)}
        case "prioritize":
            return {"nodeScore": {str(name): i for i, name in enumerate(question["nodes"])}}
        case _:
            names = [f"{v['namespace']}/{v['name']}" for v in question["evictees"]]
            return {"victims": names}


@contextmanager
def answering() -> Iterator[str]:
    """Its address, while it answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
