"""JSON log lines for programs that write text: the ledger's server, the Ray head."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from typing import IO

import orjson

_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_BAD = re.compile(r"\b(ERR|ERROR|WARN|WARNING|FATAL)\b|\A\d+:[A-Z] .* # ")
"""A warning or worse: in Ray's words, or with the sign of a Redis server."""


class Relay:
    """Writes each line that comes out of a pipe as one JSON line, until the pipe is closed. What is
    JSON already stays as it is."""

    def __init__(self, source: IO[bytes], log: IO[bytes], logger: str) -> None:
        """Takes over both files, and closes them. ``logger``: the name under which the lines
        appear."""
        self._source = source
        self._log = log
        self._logger = logger
        self._thread = threading.Thread(target=self._run, name=f"log of {logger}", daemon=True)
        self._thread.start()

    def finish(self, timeout: float = 1.0) -> None:
        """Wait until everything is written, once the program has ended; a child of it may keep the
        pipe open."""
        self._thread.join(timeout)

    def _run(self) -> None:
        with self._source, self._log:
            for line in self._source:
                if _is_json(line):
                    self._log.write(line)
                elif text := _COLOURS.sub(b"", line).decode(errors="replace").strip():
                    self._log.write(json_line(text, self._logger))
                self._log.flush()


def _is_json(line: bytes) -> bool:
    """Whether the line is a complete JSON object: a process that dies may leave half of one."""
    if not line.startswith(b"{") or not line.endswith(b"}\n"):
        return False
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def json_line(text: str, logger: str) -> bytes:
    """A line of another program in the form of ours."""
    stamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    level = "warning" if _BAD.search(text) else "info"
    fields = {"ts": stamp, "level": level, "event": text, "logger": logger}
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
