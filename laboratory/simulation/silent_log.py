"""Silences the log of the service's own parts: a run of a thousand seeds must not write it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def silent_log() -> Iterator[None]:
    """Drop log lines of this process within the block, but for critical ones."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
