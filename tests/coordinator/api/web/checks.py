"""What holds for each view of the page. Each raises AssertionError, and is seen to do so on a page
that was spoilt for it (:mod:`tests.coordinator.api.web.test_spoilt_pages`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
from axe_playwright_python.async_playwright import Axe

from coordinator.cli.scheduling.queue import amounts, reasons
from coordinator.cli.scheduling.queue_figures import queue_figures
from shared.units.quantity import quantity
from shared.units.times import span
from tests.coordinator.api.web.browser import Seen

if TYPE_CHECKING:
    from playwright.async_api import Page

STATUS = "/apis/quadrant.dev/v1alpha1/status"
SHARDS = "/apis/quadrant.dev/v1alpha1/shards"
MOST_ELEMENTS = 2000
AMOUNTS = {
    "cpu": (0, 1, 999, 1000, 1500, 31_333, -500, 2_000_000, 999.5, 1000.5),
    "memory": (0, 1, 1023, 1024, 1 << 30, 5 << 28, 7 << 28, (1 << 40) + 1, 3 << 39),
    "nvidia.com/gpu": (0, 1000, 1250, 333),
    "pods": (0, 7),
    "hugepages-2Mi": (2 << 20,),
}
SECONDS = (0, 1, 119, 120, 599, 600, 7200, 10_800, 30_000, 172_800, 700_000, 9e7, 4e8)


def quiet(seen: Seen) -> None:
    """Nothing on the console, no request to another server."""
    assert seen.errors == []
    assert seen.elsewhere == []


async def accessible(page: Page) -> None:
    """Nothing that axe objects to."""
    results = await Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


async def reachable(page: Page) -> None:
    """The first Tab lands on the way past the navigation; every control has its turn."""
    await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    focused = "document.activeElement.id || document.activeElement.textContent"
    await page.keyboard.press("Tab")
    assert await page.evaluate(focused) == "skip"
    await page.keyboard.press("Enter")
    assert await page.evaluate(focused) == "main"
    controls = await page.evaluate(
        "[...document.querySelectorAll('main button, main select, main input, main .scroller')]"
        ".filter(node => node.offsetParent).length"
    )
    reached = set()
    for _ in range(200):
        await page.keyboard.press("Tab")
        at = await page.evaluate(
            "(() => { const node = document.activeElement; if (!node.closest('main')) return -1;"
            " return node.matches('button, select, input, .scroller')"
            " ? [...document.querySelectorAll('main *')].indexOf(node) : -2; })()"
        )
        if at == -1:
            break
        reached.add(at)
    assert len(reached - {-2}) == controls


async def structured(page: Page) -> None:
    """One head of each rank to begin with, the landmarks, and a title of its own."""
    assert await page.locator("h1").count() == 1
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert await page.get_by_role(landmark).count() == 1, landmark
    assert await page.locator("nav [aria-current=page]").count() == 1
    assert await page.title() != "Quadrant"


async def small(page: Page) -> None:
    elements = await page.evaluate("document.querySelectorAll('*').length")
    assert elements < MOST_ELEMENTS


async def fits(page: Page) -> None:
    """What is wide scrolls in its own frame, and not the page."""
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def table(page: Page, label: str) -> list[list[str]]:
    """The texts of a table's rows in the document."""
    rows: list[list[str]] = await page.evaluate(
        "label => [...document.querySelector(`.scroller[aria-label='${label}']`)"
        ".querySelectorAll('tbody tr:not(.spacer)')]"
        ".map(row => [...row.children].map(cell => cell.textContent))",
        label,
    )
    return rows


# --- figures ------------------------------------------------------------------------------------


async def get(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path) as answer:
        assert answer.status == 200
        return await answer.json()


async def overview_figures(page: Page, session: aiohttp.ClientSession) -> None:
    status = await get(session, STATUS)
    for what in ("jobs", "tasks"):
        for word, number in status[what].items():
            assert await page.text_content(f"#{what}-{word}") == f"{number:,}", (what, word)
    async with session.get("/metrics") as answer:
        figures = queue_figures(await answer.text())
    for name, allocated, due, waiting, why in await table(page, "Queues"):
        queue = figures[name]
        assert allocated == amounts(queue.amounts.get("allocated"), 2)
        assert due == amounts(queue.amounts.get("deserved"), 2)
        assert (waiting, why) == (str(sum(queue.waiting.values())), reasons(queue.waiting))


async def job_figures(page: Page, session: aiohttp.ClientSession) -> None:
    listed = await get(session, "/apis/batch.volcano.sh/v1alpha1/jobs")
    shown = {row[0]: row for row in await table(page, "Jobs")}
    for job in listed["items"]:
        status, metadata = job["status"], job["metadata"]
        row = shown[f"{metadata['namespace']}/{metadata['name']}"]
        reason = (metadata.get("annotations") or {}).get("quadrant.dev/reason", "")
        assert row[2:5] == [job["spec"].get("queue", "default"), status["state"]["phase"], reason]
        words = ("minAvailable", "pending", "running", "succeeded", "failed")
        assert row[6:11] == [f"{status[word]:,}" for word in words]


async def shard_figures(page: Page, session: aiohttp.ClientSession) -> None:
    shards = (await get(session, SHARDS))["items"]
    rows = await table(page, "Workers")
    for row, shard in zip(rows, shards, strict=True):
        status = shard["status"]
        assert row[:2] == [shard["metadata"]["name"], "Up" if status["up"] else "Down"]
        words = ("nodes", "desired", "outstanding", "turns", "waiting", "calls", "turnLimit")
        assert row[2:9] == [f"{status[word]:,}" for word in words]
    status = await get(session, STATUS)
    work = await table(page, "Levels and conflicts by home shard")
    sums = [sum(int(row[at].replace(",", "")) for row in work) for at in range(1, 9)]
    assert sums == [*status["levels"].values(), *status["statements"].values()]
    nodes = {
        node["metadata"]["name"]: node for node in (await get(session, "/api/v1/nodes"))["items"]
    }
    resource = await page.input_value("#resource")
    for row in await table(page, "Nodes"):
        node = nodes[row[0]]
        assert row[1] == node["metadata"]["annotations"]["quadrant.dev/shard"]
        amounts_of = node["status"]
        assert row[3] == amounts_of["allocated"].get(resource, "0")
        assert row[4] == amounts_of["allocatable"].get(resource, "0")


async def same_words(page: Page) -> None:
    """The page writes amounts and ages as the commands do."""
    shown = await page.evaluate(
        "async ([amounts, seconds]) => { const { quantity, span } = await import('./format.js');"
        "return [Object.entries(amounts)"
        ".map(([name, all]) => all.map(each => quantity(name, each))), seconds.map(span)]; }",
        [{name: list(values) for name, values in AMOUNTS.items()}, list(SECONDS)],
    )
    assert shown == [
        [[quantity(name, each) for each in values] for name, values in AMOUNTS.items()],
        [span(each) for each in SECONDS],
    ]
