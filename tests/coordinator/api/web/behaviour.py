"""What a page does while something happens. Each leaves the world as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from coordinator.api.web import stream
from tests.builders.objects import simple_job
from tests.coordinator.api.web import checks
from tests.coordinator.api.web.browser import MILLISECONDS, until
from tests.coordinator.api.web.world import HeldShards
from tests.end_to_end.one_process.harness import Running, submit

if TYPE_CHECKING:
    from playwright.async_api import Page

PATIENCE = MILLISECONDS / 1000
JOBS = 16
"""Jobs of the world."""
TOTAL = "document.querySelector('.filters .total').textContent"
STATE = (
    "document.querySelector('.scroller[aria-label=Workers] tbody tr:not(.spacer) td').textContent"
)


async def _order(page: Page) -> list[Any]:
    """The rows of the world's namespace, what has the focus, how far the table is scrolled."""
    order: list[Any] = await page.evaluate(
        "[...document.querySelectorAll('tbody tr:not(.spacer) th')].map(cell => cell.textContent)"
        ".filter(name => name.startsWith('ns/')).concat([document.activeElement.textContent,"
        " document.querySelector('.scroller').scrollTop])"
    )
    return order


async def steady(page: Page, service: Running, *, changes: int = 5) -> None:
    """No row moves, and the focus stays, while jobs come and go."""
    names = [row[0] for row in await checks.table(page, "Jobs")]
    assert names == sorted(names)
    await page.locator("tbody a", has_text="ns/sweep-03").focus()
    before = await _order(page)
    try:
        for at in range(changes):
            await submit(service, simple_job(f"later-{at}", 1, namespace="mm", seconds=36_000))
            await until(page, f"{TOTAL} === '{JOBS + 1 + at} of {JOBS + 1 + at} jobs'")
            assert await _order(page) == before
    finally:
        await delete(service, *(f"later-{at}" for at in range(changes)))
    await until(page, f"{TOTAL} === '{JOBS} of {JOBS} jobs'")
    assert await _order(page) == before


async def delete(service: Running, *names: str) -> None:
    async with aiohttp.ClientSession(service.url) as session:
        for name in names:
            path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/mm/jobs/{name}"
            async with session.delete(path) as answer:
                assert answer.status in (200, 404)
    await service.until(lambda status: status["jobs"]["submitted"] == JOBS)


async def text_alone(page: Page) -> None:
    """A name that looks like markup stays text."""
    odd = "<img src=icon.svg>"
    await page.evaluate(
        "async odd => { const { Table } = await import('./table.js');"
        " const table = new Table({ label: 'odd', key: row => row, columns: ["
        " { head: 'a', cell: row => ({ text: row, href: '#/jobs' }) }] });"
        " document.querySelector('main').append(table.element); table.setRows([odd]); }",
        odd,
    )
    assert await checks.table(page, "odd") == [[odd]]
    assert await page.locator("main img").count() == 0


async def loss_told(page: Page, service: Running, *, seconds: float = PATIENCE) -> None:
    """A worker that is lost is Down, and Up once another serves the shard."""
    shards = service.shards
    assert isinstance(shards, HeldShards)
    shards.may_start.clear()
    shards.deaf.add(0)
    try:
        await until(page, f"{STATE} === 'Down'", seconds=seconds)
    finally:
        shards.may_start.set()
        await service.until(lambda status: all(shard["up"] for shard in status["shards"]))
    await until(page, f"{STATE} === 'Up'")
    await page.wait_for_selector("td:text('ShardRecovered')")


async def cut_told(
    page: Page, service: Running, http: aiohttp.ClientSession, *, seconds: float = PATIENCE
) -> None:
    """A cut stream says so, and shows what happened meanwhile once it is back."""
    try:
        with pytest.MonkeyPatch.context() as cut:
            cut.setattr(stream, "LONGEST_SECONDS", -1.0)  # each stream ends at once
            await until(page, "document.body.dataset.link === 'reconnecting'", seconds=seconds)
            assert "reconnecting" in (await page.text_content("#link") or "")
            await submit(service, simple_job("meanwhile", 1, namespace="mm", seconds=36_000))
            await service.until(lambda status: status["jobs"]["running"] == JOBS - 1)
        await until(page, "document.body.dataset.link === 'live'")
        await until(page, f"document.querySelector('#jobs-running').textContent === '{JOBS - 1}'")
        await checks.overview_figures(page, http)
    finally:
        await delete(service, "meanwhile")
    await until(page, f"document.querySelector('#jobs-submitted').textContent === '{JOBS}'")
