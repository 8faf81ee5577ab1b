"""Debian's headless Chromium, driven by Playwright, which downloads nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

PLACES = (
    os.environ.get("CHROMIUM", ""),
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/headless_shell",
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
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


@contextlib.asynccontextmanager
async def opened(
    browser: Browser, url: str, view: str, **options: Any
) -> AsyncIterator[tuple[Page, Seen]]:
    """A page of its own that has shown its first frame."""
    context = await browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce"} | options)
    context.set_default_timeout(MILLISECONDS)
    try:
        page = await context.new_page()
        seen = Seen(page, url)
        await page.goto(f"{url}/ui/#/{view}")
        await page.wait_for_selector("body[data-ready]")
        yield page, seen
    finally:
        await context.close()
