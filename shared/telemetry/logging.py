"""How every process writes a log line.

A log line has ``ts level event logger`` first, then what the caller gives: ``job shard session
epoch statement revision trace_id`` where they apply. It is JSON unless a person is reading.
Sentences start with a capital, are past tense, end without a full stop. Nothing is logged per task
above debug.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, TextIO

import orjson
import structlog

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FIRST = ("ts", "level", "event", "logger")

Event = MutableMapping[str, Any]


def configure_logging(
    level: str = "info", form: str = "auto", *, stream: TextIO | None = None, **bound: Any
) -> None:
    """Set up structlog and the standard library's loggers alike, to ``stream`` (default stderr).

    ``form`` is auto, json or console; auto is JSON unless the stream is a terminal. ``bound`` goes
    on every line of this process (``role="coordinator"``).
    """
    out = stream or sys.stderr
    machine = form == "json" or (form == "auto" and not out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _json_line if machine else structlog.dev.ConsoleRenderer(timestamp_key="ts"),
            ],
        )
    )
    handler.addFilter(_repeated_by_libraries())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            RepeatLimit(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**bound)


def log_uncaught() -> None:
    """Write what ends the process, or a thread of it, and warnings, as log lines too: a traceback
    of plain lines breaks whoever reads the log as JSON."""

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            log = logging.getLogger("uncaught")
            log.critical("Ended by an error: %s", error, exc_info=(kind, error, trace))

    def thread_ended(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            ended(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = ended
    threading.excepthook = thread_ended
    logging.captureWarnings(True)


LEVELS = ("debug", "info", "warning", "error", "critical")


def set_log_level(level: str) -> str:
    """Log from this level on, at once and until the process ends; returns the level before."""
    root = logging.getLogger()
    before = logging.getLevelName(root.level).lower()
    root.setLevel(level.upper())
    return before


class RepeatLimit:
    """Lets an event of a logger through ``limit`` times in ``period`` seconds, then counts it.

    The first one of the next period says how many were left out (``left_out``).
    """

    def __init__(
        self, limit: int = 20, period: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._period = period
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, logger: Any, method: str, event: Event) -> Event:
        left_out = self.passes(getattr(logger, "name", ""), str(event.get("event", "")))
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    def passes(self, logger: str, event: str) -> int | None:
        """Whether a line may pass: the number of lines suppressed before it, or None if it is
        suppressed too."""
        now = self._clock()
        key = (logger, event)
        since, count = self._seen.get(key, (now, 0))
        left_out = 0
        if now - since >= self._period:
            left_out = max(0, count - self._limit)
            since, count = now, 0
        self._seen[key] = (since, count + 1)
        if len(self._seen) > 1000:
            self._forget(now)
        return None if count >= self._limit else left_out

    def _forget(self, now: float) -> None:
        recent = {k: entry for k, entry in self._seen.items() if now - entry[0] < self._period}
        self._seen = recent if len(recent) <= 1000 else {}


def _repeated_by_libraries() -> Callable[[logging.LogRecord], bool]:
    """The same limit for lines that do not come through structlog, whose ``msg`` is a text."""
    limit = RepeatLimit()

    def passes(record: logging.LogRecord) -> bool:
        return (
            isinstance(record.msg, dict) or limit.passes(record.name, str(record.msg)) is not None
        )

    return passes


class PrintedLines(io.TextIOBase):
    """Replaces stdout in a process whose only output is its log: each printed line becomes a log
    line at level info.

    Libraries print from their own threads, and ``print`` writes a text and its line break
    separately. If stdout and stderr are one file, a log line written in between starts in the
    middle of a line, and log readers miss it. This happens: Ray prints that a worker died at the
    moment when its loss is logged.
    """

    def __init__(self) -> None:
        # Not structlog's: before its configuration that one prints, which would come back here.
        self._log = logging.getLogger("stdout")
        self._begun = threading.local()
        """The line that each thread has begun."""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, rest = (getattr(self._begun, "line", "") + text).split("\n")
        self._begun.line = rest
        for line in filter(str.strip, lines):
            self._log.info("%s", _COLOURS.sub("", line))
        return len(text)


def _json_line(_: Any, __: str, event: Event) -> str:
    ordered = {key: event.pop(key) for key in _FIRST if key in event}
    return orjson.dumps({**ordered, **event}, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
