"""Pictures of each view: ``python -m tests.coordinator.api.web.pictures docs/images``."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from shared.ledger.redis.server import EmbeddedServer
from tests.coordinator.api.web.browser import NARROW, WIDE, launched, opened
from tests.coordinator.api.web.world import ITEMS, RUNNING
from tests.end_to_end.one_process.harness import Running, running, submit

VIEWS = {
    "overview": "overview",
    "queues": "queues",
    "jobs": "jobs",
    "job": "job/Job/ns/many",
    "shards": "shards",
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "narrow": {"color_scheme": "light", "viewport": NARROW},
}
KEPT = ("overview-light", "job-light", "shards-dark")
"""Those that the documentation shows."""


async def draw(service: Running, folder: Path) -> None:
    async with launched() as browser:
        for name, view in VIEWS.items():
            for look, options in LOOKS.items():
                async with opened(browser, service.url, view, **options) as (page, _):
                    if name == "job":
                        await page.wait_for_selector("body[data-explained]")
                    await page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)


async def serve_and_draw(url: str, run_dir: Path, folder: Path) -> None:
    async with running(url, run_dir) as service:
        await submit(service, *ITEMS)
        await service.until(lambda status: status["tasks"]["running"] == RUNNING)
        await draw(service, folder)


def main(folder: Path, *, every: bool) -> None:
    run_dir = Path(tempfile.mkdtemp(prefix="qt-"))
    pictures = run_dir / "pictures"
    pictures.mkdir()
    server = EmbeddedServer(run_dir, run_dir / "data", fsync="no")
    server.start()
    try:
        asyncio.run(serve_and_draw(server.url, run_dir, pictures))
        folder.mkdir(parents=True, exist_ok=True)
        for picture in sorted(pictures.iterdir()):
            if every or picture.stem in KEPT:
                shutil.copy(picture, folder / f"page-{picture.name}")
    finally:
        server.stop()
        shutil.rmtree(run_dir, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), every="--every" in sys.argv)
