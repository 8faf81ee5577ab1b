"""Debian's headless Chromium, driven by Playwright, which downloads nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

PLACES = (
    os.environ.get("CHROMIUM", ""),
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/headless_shell",
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small in a container
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
MILLISECONDS = 60_000
"""The machine may stand still for some of it."""
NARROW = {"width": 390, "height": 800}
WIDE = {"width": 1280, "height": 900}


def chromium() -> str | None:
    """The program; None where there is none."""
    return next((shutil.which(place) for place in PLACES if place and shutil.which(place)), None)


@contextlib.asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), args=ARGUMENTS, timeout=MILLISECONDS
        )
        try:
            yield browser
        finally:
            await browser.close()


class Seen:
    """What a page said and asked for, against the server it came from."""

    def __init__(self, page: Page, url: str) -> None:
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self._url = url
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self._url}/", "blob:")):
            self.elsewhere.append(request.url)


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A file of the page in which a text is replaced."""

    file: str
    text: str
    by: str

    async def answer(self, route: Route) -> None:
        response = await route.fetch()
        body = await response.text()
        assert self.text in body, self
        # Without the policy: else it would stop what the checks are to notice.
        headers = {k: v for k, v in response.headers.items() if "policy" not in k}
        await route.fulfill(
            response=response, headers=headers, body=body.replace(self.text, self.by)
        )


@contextlib.asynccontextmanager
async def opened(
    browser: Browser, url: str, view: str, *, spoilt: Spoilt | None = None, **options: Any
) -> AsyncIterator[tuple[Page, Seen]]:
    """A page of its own that has shown its first frame."""
    context = await browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce"} | options)
    context.set_default_timeout(MILLISECONDS)
    try:
        page = await context.new_page()
        if spoilt is not None:
            path = spoilt.file.removesuffix("index.html")
            await page.route(f"**/ui/{path}", lambda route: spoilt.answer(route))
        seen = Seen(page, url)
        await page.goto(f"{url}/ui/#/{view}")
        await page.wait_for_selector("body[data-ready]")
        yield page, seen
    finally:
        await context.close()


async def until(
    page: Page, expression: str, arg: Any = None, *, seconds: float = MILLISECONDS / 1000
) -> None:
    """Wait for an expression to hold. Not ``wait_for_function``: it evaluates text inside the page,
    which the page's own policy forbids."""
    deadline = time.monotonic() + seconds
    while not await page.evaluate(expression, arg):
        assert time.monotonic() < deadline, expression
        await asyncio.sleep(0.05)
