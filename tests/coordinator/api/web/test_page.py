"""Each view in a real browser, against a whole service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from coordinator.api.auth.roles import FRAMES
from tests.coordinator.api.web import behaviour, checks
from tests.coordinator.api.web.browser import NARROW, WIDE, opened, until
from tests.end_to_end.one_process.harness import Running

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = [pytest.mark.all, pytest.mark.asyncio(loop_scope="module")]

VIEWS = ("overview", "queues", "jobs", "job/Job/ns/many", "shards")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "narrow": {"color_scheme": "light", "viewport": NARROW},
}


@pytest.mark.parametrize("look", LOOKS)
async def test_each_view_is_quiet_accessible_and_small(
    browser: Browser, world: Running, look: str, subtests: pytest.Subtests
) -> None:
    for view in VIEWS:
        with subtests.test(view):
            async with opened(browser, world.url, view, **LOOKS[look]) as (page, seen):
                if view.startswith("job/"):
                    await page.wait_for_selector("body[data-explained]")
                await checks.structured(page)
                await checks.accessible(page)
                await checks.fits(page)
                await checks.small(page)
                if look == "light":
                    await checks.reachable(page)
                checks.quiet(seen)


async def test_the_figures_are_those_of_the_api(
    browser: Browser, world: Running, http: aiohttp.ClientSession
) -> None:
    async with opened(browser, world.url, "overview") as (page, _):
        await checks.overview_figures(page, http)
        await checks.same_words(page)
        await page.keyboard.press("g")
        await page.keyboard.press("j")
        await page.wait_for_selector("h1:text('Jobs')")
        await checks.job_figures(page, http)
        await page.keyboard.press("g")
        await page.keyboard.press("s")
        await page.wait_for_selector("h1:text('Shards')")
        await checks.shard_figures(page, http)


async def test_a_job_tells_why_it_waits_and_what_would_help(
    browser: Browser, world: Running, http: aiohttp.ClientSession
) -> None:
    """By keyboard alone, from the first view on."""
    async with opened(browser, world.url, "overview") as (page, seen):
        await page.keyboard.press("g")
        await page.keyboard.press("j")
        await page.wait_for_selector("h1:text('Jobs')")
        await page.keyboard.press("/")
        await page.keyboard.type("ns/man")
        await until(
            page, "document.querySelector('.filters .total').textContent === '1 of 16 jobs'"
        )
        assert "filter=ns%2Fman" in page.url
        await page.locator("tbody a").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_selector("body[data-explained]")
        path = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/many/explain"
        answer = await checks.get(http, path)
        text = await page.text_content("main") or ""
        assert f"{answer['reason']}: {answer['message']}" in text
        assert answer["room"] in text
        for change in answer["if"]:
            assert change["change"] in text
        for entry in answer["story"]:
            assert entry["reason"] in text
        parts = await page.locator(".parts .n").all_text_contents()
        total = await page.text_content(".receipt-total") or ""
        assert sum(map(milliseconds, parts)) == milliseconds(total.split(" = ")[0][7:])
        assert await page.text_content(".tools code") == "quadrant explain job ns/many"
        await page.go_back()
        await page.wait_for_selector("#filter")
        assert await page.input_value("#filter") == "ns/man"
        checks.quiet(seen)


def milliseconds(text: str) -> int:
    """``1 min 2.003 s`` in milliseconds."""
    words = text.split()
    sizes = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000}
    return sum(
        round(float(number) * sizes[unit])
        for number, unit in zip(words[::2], words[1::2], strict=True)
    )


async def test_no_row_moves_while_jobs_come_and_go(browser: Browser, world: Running) -> None:
    async with opened(browser, world.url, "jobs") as (page, seen):
        await behaviour.steady(page, world)
        checks.quiet(seen)


async def test_what_users_name_is_text(browser: Browser, world: Running) -> None:
    async with opened(browser, world.url, "jobs") as (page, seen):
        await behaviour.text_alone(page)
        checks.quiet(seen)


async def test_a_lost_worker_is_told_and_its_return(browser: Browser, world: Running) -> None:
    async with opened(browser, world.url, "shards") as (page, _):
        await behaviour.loss_told(page, world)


async def test_a_cut_stream_says_so_and_is_whole_again(
    browser: Browser, world: Running, http: aiohttp.ClientSession
) -> None:
    async with opened(browser, world.url, "overview") as (page, _):
        await behaviour.cut_told(page, world, http)


JOBS, NODES = 100_000, 50_000


async def large_frame(http: aiohttp.ClientSession) -> bytes:
    """The world's first frame with many more rows."""
    async with http.get(FRAMES) as response:
        held = b""
        while b"\n\n" not in held:
            held += await response.content.readany()
    frame = orjson.loads(held.partition(b"\n\n")[0].partition(b"\ndata: ")[2])
    jobs, nodes = frame["tables"]["jobs"]["rows"], frame["tables"]["nodes"]["rows"]
    for number in range(JOBS):
        _, _, _, *rest = jobs[number % len(jobs)]
        jobs.append([1000 + number, f"team-{number % 50}", f"job-{number:06}", *rest])
    for number in range(NODES):
        _, _, _, *rest = nodes[number % 12]
        nodes.append([1000 + number, f"large-{number:05}", number % 8, *rest])
    return b"event: snapshot\ndata: %b\n\n" % orjson.dumps(frame)


async def test_many_rows_are_few_elements(
    browser: Browser, world: Running, http: aiohttp.ClientSession
) -> None:
    body = await large_frame(http)

    async def answer(route: Route) -> None:
        await route.fulfill(body=body, content_type="text/event-stream")

    async with opened(browser, world.url, "overview") as (page, _):
        await page.route(f"**{FRAMES}", answer)
        for view, many in (("jobs", JOBS), ("shards", NODES)):
            await page.goto(f"{world.url}/ui/?{view}#/{view}")
            await until(
                page,
                f"document.querySelector('.filters .total')?.textContent"
                f".includes('of {many // 1000},') ?? false",
            )
            await checks.small(page)
            scroller = page.locator(".scroller.tall")
            await scroller.evaluate("node => { node.scrollTop = node.scrollHeight }")
            last = "team-9/job-099959" if view == "jobs" else "node-cordoned"
            await until(
                page,
                "last => [...document.querySelectorAll('.tall tbody th')]"
                ".some(cell => cell.textContent.includes(last))",
                last,
            )
            await checks.small(page)
