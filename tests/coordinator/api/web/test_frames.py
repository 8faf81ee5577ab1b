"""Frames alone: one picture for all pages, nothing without a page, no queue for a slow one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from coordinator.api.web import frames as frames_module
from coordinator.api.web.frames import KEPT_DELTAS, FrameMessage, Frames
from coordinator.api.web.table import FrameTable
from shared.slices import Steps

SECONDS = 60.0


class MadePicture:
    """A picture that a test paints."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.painted: dict[str, Any] = {"status": {"jobs": 1}}
        self.jobs = FrameTable(("id", "namespace", "phase"))
        self.nodes = FrameTable(("row", "name"))
        self.tables = {"jobs": self.jobs, "nodes": self.nodes}
        self.version = 0
        self.readings = 0
        self.cleared = 0

    async def refresh(self) -> None:
        """Nothing here is expensive."""

    def read(self) -> Steps[None]:
        yield
        self.readings += 1
        self.version += 1
        self.values = dict(self.painted)

    def clear(self) -> None:
        self.cleared += 1


@pytest.fixture
def picture() -> MadePicture:
    return MadePicture()


@pytest.fixture
async def frames(picture: MadePicture, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Frames]:
    monkeypatch.setattr(frames_module, "INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(frames_module, "LONGEST_INTERVAL_SECONDS", 0.001)
    frames = Frames(picture)  # type: ignore[arg-type]
    task = asyncio.create_task(frames.run_forever())
    yield frames
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def read(message: FrameMessage | None) -> list[tuple[str, Any]]:
    """(event, data) of each server-sent event."""
    assert message is not None
    text = b"".join(message.parts).decode()
    events = []
    for part in text.removesuffix("\n\n").split("\n\n"):
        head, _, data = part.partition("\ndata: ")
        events.append((head.removeprefix("event: "), orjson.loads(data)))
    return events


async def after(frames: Frames, number: int | None, reach: Any = None) -> FrameMessage:
    async with asyncio.timeout(SECONDS):
        while (message := await frames.after(number, reach, seconds=SECONDS)) is None:
            pass
    return message


async def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def readings_after(picture: MadePicture, number: int) -> None:
    """Wait for so many more readings."""
    last = picture.readings + number
    await until(lambda: picture.readings >= last)


async def test_nothing_is_read_while_no_page_is_open(frames: Frames, picture: MadePicture) -> None:
    await asyncio.sleep(0.05)
    assert picture.readings == 0
    with frames.opened():
        await after(frames, None)
    await until(lambda: picture.cleared > 0)
    readings = picture.readings
    await asyncio.sleep(0.05)
    assert picture.readings == readings


async def test_first_everything_then_what_changed(frames: Frames, picture: MadePicture) -> None:
    picture.jobs.put((1, "a", "Pending"))
    picture.jobs.put((2, "b", "Pending"))
    with frames.opened():
        first = await after(frames, None)
        [(event, whole)] = read(first)
        assert event == "snapshot"
        assert whole["values"] == {"status": {"jobs": 1}}
        assert whole["tables"]["jobs"]["rows"] == [[1, "a", "Pending"], [2, "b", "Pending"]]
        assert whole["tables"]["nodes"] == {"columns": ["row", "name"], "rows": []}
        picture.jobs.put((2, "b", "Running"))
        picture.jobs.put((1, "a", "Pending"))  # as before: no change
        [(event, delta)] = read(await after(frames, first.number))
        assert event == "delta"
        assert delta["values"] == {}
        assert delta["tables"] == {"jobs": {"rows": [[2, "b", "Running"]], "gone": []}}
        picture.jobs.drop(1)
        picture.painted["status"] = {"jobs": 0}
        await readings_after(picture, 2)
        seen = read(await after(frames, first.number))
        assert [event for event, _ in seen] == ["delta"] * len(seen)
        changed = [delta["tables"].get("jobs", {}).get("gone") for _, delta in seen]
        assert [1] in changed
        assert seen[-1][1]["number"] > whole["number"]


async def test_no_frame_where_nothing_changed(frames: Frames, picture: MadePicture) -> None:
    with frames.opened():
        first = await after(frames, None)
        await readings_after(picture, 3)
        assert await frames.after(first.number, None, seconds=0.0) is None


async def test_a_page_that_is_too_far_behind_gets_everything_anew(
    frames: Frames, picture: MadePicture
) -> None:
    with frames.opened():
        first = await after(frames, None)
        for number in range(KEPT_DELTAS + 3):
            picture.jobs.put((number, "a", "Pending"))
            await readings_after(picture, 2)
        [(event, whole)] = read(await after(frames, first.number))
        assert event == "snapshot"
        assert len(whole["tables"]["jobs"]["rows"]) == KEPT_DELTAS + 3
        assert len(frames._deltas) <= KEPT_DELTAS


async def test_a_hundred_pages_share_one_picture(frames: Frames, picture: MadePicture) -> None:
    picture.jobs.put((1, "a", "Pending"))
    with contextlib.ExitStack() as pages:
        for _ in range(100):
            pages.enter_context(frames.opened())
        messages = [await after(frames, None) for _ in range(100)]
        assert len({id(message.parts) for message in messages}) == 1
        picture.jobs.put((1, "a", "Running"))
        again = [await after(frames, messages[0].number) for _ in range(100)]
        assert len({id(message.parts[0]) for message in again}) == 1


async def test_a_tenant_sees_the_rows_of_their_namespaces(
    frames: Frames, picture: MadePicture
) -> None:
    picture.jobs.put((1, "a", "Pending"))
    picture.jobs.put((2, "b", "Pending"))
    reach = frozenset({"b"})
    with frames.opened():
        first = await after(frames, None, reach)
        [(_, whole)] = read(first)
        assert whole["tables"]["jobs"]["rows"] == [[2, "b", "Pending"]]
        picture.jobs.put((1, "a", "Running"))
        picture.jobs.put((2, "b", "Running"))
        rows = [
            row
            for _, delta in read(await after(frames, first.number, reach))
            for row in delta["tables"]["jobs"]["rows"]
        ]
        assert rows == [[2, "b", "Running"]]


async def test_frames_take_a_bounded_part_of_a_core(picture: MadePicture) -> None:
    frames = Frames(picture)  # type: ignore[arg-type]
    frames._spent = 0.001
    assert frames._pause() == frames_module.INTERVAL_SECONDS
    frames._spent = 0.04
    assert frames._pause() == pytest.approx(1.0)
    frames._spent = 10.0
    assert frames._pause() == frames_module.LONGEST_INTERVAL_SECONDS
    for row in range(frames_module.MANY_NODES + 1):
        picture.nodes.put((row, "n"))
    frames._spent = 0.0
    assert frames._pause() == frames_module.MANY_INTERVAL_SECONDS
