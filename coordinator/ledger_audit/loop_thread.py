"""An event loop in a thread of its own, for work that must come to its turn while the first loop is
busy, and that takes little of the interpreter.

A callback of a loaded loop comes to its turn every 40 ms, and does 2 ms of work then: that is a
twentieth of a core at most, whatever else is idle. In a thread it waits for the interpreter, which
is passed on after 1 ms (:data:`SWITCH_SECONDS`), and passes it on as soon itself.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

JOIN_SECONDS = 5.0
"""Maximum time to end: cancelled work ends at its next step."""

SWITCH_SECONDS = 0.001
"""How long a thread keeps the interpreter while another wants it; Python's default is 5 ms.

A thread that waits for an answer or computes a seal releases it and must wait to get it back. With
the short interval the audit reads several times as fast beside a busy loop, and the loop gets it
back as soon.
"""

T = TypeVar("T")


class LoopThread:
    """``async with LoopThread(...) as thread: await thread.run(work())``."""

    def __init__(self, name: str, *, closing: Callable[[], Awaitable[None]]) -> None:
        """``closing`` is awaited in the thread's loop at its end."""
        self._closing = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._switch = SWITCH_SECONDS
        """The switch interval before."""
        self._ready = threading.Event()
        # A daemon: a process that dies must not wait for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def __aenter__(self) -> Self:
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thread.start()
        self._ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)
        sys.setswitchinterval(self._switch)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work in the thread's loop; cancelling the caller cancels the work."""
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _run(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._closing()
