"""Each check of the page fails on a page that was spoilt for it. That it holds on a good one is
shown in :mod:`tests.coordinator.api.web.test_page`, for each view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.coordinator.api.web import behaviour, checks
from tests.coordinator.api.web.browser import NARROW, Seen, Spoilt, opened
from tests.end_to_end.one_process.harness import Running

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = [pytest.mark.all, pytest.mark.asyncio(loop_scope="module")]

SOON = 3.0
"""A page that never does it is waited for this long."""


@dataclass(frozen=True, slots=True)
class Tools:
    page: Page
    seen: Seen
    service: Running
    http: aiohttp.ClientSession


Check = Callable[[Tools], Awaitable[None]]


async def _quiet(tools: Tools) -> None:
    checks.quiet(tools.seen)


def on_page(check: Callable[[Page], Awaitable[None]]) -> Check:
    return lambda tools: check(tools.page)


def figures(check: Callable[[Page, aiohttp.ClientSession], Awaitable[None]]) -> Check:
    return lambda tools: check(tools.page, tools.http)


COUNT = Spoilt(
    "format.js", 'number.toLocaleString("en-US")', '(number + 1).toLocaleString("en-US")'
)
BOOT = "show();\nnew Stream"
NARROWLY: dict[str, Any] = {"viewport": NARROW}
CASES: dict[str, tuple[str, Spoilt, Check, dict[str, Any]]] = {
    "console": ("overview", Spoilt("main.js", BOOT, f"console.error('x');{BOOT}"), _quiet, {}),
    "request elsewhere": (
        "overview",
        Spoilt(
            "views/overview.js", "import {", "new Image().src = 'http://127.0.0.2:9/';\nimport {"
        ),
        _quiet,
        {},
    ),
    "contrast": (
        "overview",
        Spoilt("page.css", "--muted: #57606a", "--muted: #c0c0c0"),
        on_page(checks.accessible),
        {},
    ),
    "no label": (
        "jobs",
        Spoilt("views/jobs.js", 'el("label", { for: id, text })', 'el("span", { text })'),
        on_page(checks.accessible),
        {},
    ),
    "no way past the navigation": (
        "overview",
        Spoilt("index.html", 'class="skip" id="skip"', 'class="skip" id="skip" tabindex="-1"'),
        on_page(checks.reachable),
        {},
    ),
    "a table that no key reaches": (
        "jobs",
        Spoilt("table.js", 'tabindex: "0"', 'tabindex: "-1"'),
        on_page(checks.reachable),
        {},
    ),
    "no main part": (
        "overview",
        Spoilt("index.html", '<main id="main" tabindex="-1"></main>', '<div id="main"></div>'),
        on_page(checks.structured),
        {},
    ),
    "many elements": (
        "overview",
        Spoilt(
            "main.js",
            BOOT,
            f"for (let at = 0; at < 2000; at += 1) document.body.append(el('span'));{BOOT}",
        ),
        on_page(checks.small),
        {},
    ),
    "too wide": (
        "overview",
        Spoilt("page.css", ".scroller { overflow: auto;", ".scroller { overflow: visible;"),
        on_page(checks.fits),
        NARROWLY,
    ),
    "counts": ("overview", COUNT, figures(checks.overview_figures), {}),
    "a queue's amounts": (
        "overview",
        Spoilt(
            "views/queue_columns.js",
            "amounts(row.amounts.deserved)",
            "amounts(row.amounts.request)",
        ),
        figures(checks.overview_figures),
        {},
    ),
    "figures of jobs": ("jobs", COUNT, figures(checks.job_figures), {}),
    "figures of shards": ("shards", COUNT, figures(checks.shard_figures), {}),
    "rounding": (
        "overview",
        Spoilt("format.js", "const tie = tenths - floor === 0.5;", "const tie = false;"),
        on_page(checks.same_words),
        {},
    ),
    "rows made anew": (
        "jobs",
        Spoilt(
            "table.js",
            "let line = this.shown.get(key);",
            "let line = undefined; this.shown.get(key)?.remove();",
        ),
        lambda tools: behaviour.steady(tools.page, tools.service, changes=1),
        {},
    ),
    "rows by the latest": (
        "jobs",
        Spoilt(
            "views/jobs.js",
            "name: (a, b, at) => compare(",
            "name: (a, b, at) => b[0] - a[0] || compare(",
        ),
        lambda tools: behaviour.steady(tools.page, tools.service, changes=0),
        {},
    ),
    "markup": (
        "jobs",
        Spoilt(
            "dom.js",
            "if (node.textContent !== text) node.textContent = text;",
            "node.innerHTML = text;",
        ),
        on_page(behaviour.text_alone),
        {},
    ),
    "a loss untold": (
        "shards",
        Spoilt("views/shards.js", 'row.up ? "Up" : "Down"', '"Up"'),
        lambda tools: behaviour.loss_told(tools.page, tools.service, seconds=SOON),
        {},
    ),
    "a cut untold": (
        "overview",
        Spoilt("stream.js", 'this.state("reconnecting", sentence);', ""),
        lambda tools: behaviour.cut_told(tools.page, tools.service, tools.http, seconds=SOON),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_check_notices(
    name: str, browser: Browser, world: Running, http: aiohttp.ClientSession
) -> None:
    view, spoilt, check, options = CASES[name]
    async with opened(browser, world.url, view, spoilt=spoilt, **options) as (page, seen):
        with pytest.raises(AssertionError):
            await check(Tools(page, seen, world, http))
