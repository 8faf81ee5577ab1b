"""A reader at a terminal: `quadrant up` in one window, the blocks of a page in another."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conftest import ROOT
from tests.docs.pages import Block

ADDRESS = "http://127.0.0.1:8080"
"""The address of the pages, where a server listens by default."""
START_SECONDS = 120.0
PAGE_SECONDS = 250.0
"""A page waits for a minute where its Job runs that long; the rest takes 20 s in quiet."""


def kubectl() -> str | None:
    return os.environ.get("KUBECTL") or shutil.which("kubectl")


def surroundings(directory: Path, **more: str) -> dict[str, str]:
    """The environment of a reader who has nothing set; ``directory`` holds his programs."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    result = kubectl()
    if result is not None and not (programs / "kubectl").exists():
        (programs / "kubectl").symlink_to(result)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("QUADRANT_")
    }
    return environment | {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(directory),
        "KUBECONFIG": "",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        **more,
    }


class Up:
    """A server, started by a page's own words, on a port that is free."""

    def __init__(self, text: str, directory: Path, *, shards: int = 2, **environment: str) -> None:
        """Each shard's worker takes 2 s of processor time to start."""
        self._run_dir = Path(tempfile.mkdtemp(prefix="qt-"))
        self._said = directory / "up.txt"
        with self._said.open("w") as output:
            self._process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", f"exec {text.strip()}"],
                cwd=directory,
                env=surroundings(
                    directory,
                    QUADRANT_RUN_DIR=str(self._run_dir),
                    QUADRANT_LISTEN_PORT="0",
                    QUADRANT_SHARDS=str(shards),
                    **environment,
                ),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.address = ""
        self.kubeconfig = ""

    def __enter__(self) -> Self:
        try:
            self._await()
        except BaseException:
            self.stop()
            raise
        return self

    def _await(self) -> None:
        """Until it has said what a reader needs: the address, and the line to copy."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            output = self._said.read_text()
            address = re.search(r"^http://\S+$", output, re.MULTILINE)
            export = re.search(r"^export KUBECONFIG=(\S+)$", output, re.MULTILINE)
            if address and export:
                self.address, self.kubeconfig = address[0], export[1]
                return
            time.sleep(0.05)
        raise AssertionError(f"not up: {self._said.read_text()}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """As Ctrl-C does; it ends every process it has started."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        finally:
            shutil.rmtree(self._run_dir, ignore_errors=True)


def run(blocks: list[Block], directory: Path, server: Up | None) -> dict[int, str]:
    """Run blocks in one shell; what each has printed, by its line.

    Blocks that are files are written when it is their turn."""
    parts = [_lines(block, directory) for block in blocks if block.kind != "text"]
    kubeconfig = {} if server is None else {"KUBECONFIG": server.kubeconfig}
    text = "".join(parts).replace(ADDRESS, ADDRESS if server is None else server.address)
    (directory / "page.sh").write_text(text)
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "page.sh"],
        cwd=directory,
        env=surroundings(directory, **kubeconfig),
        capture_output=True,
        text=True,
        timeout=PAGE_SECONDS,
        check=False,
    )
    printed = {
        block.line: _printed(block, directory).read_text()
        for block in blocks
        if _printed(block, directory).exists()
    }
    last = max(printed, default=0)
    assert result.returncode == 0, (
        f"block of line {last} ended with {result.returncode}:\n"
        f"{printed.get(last)}\n{result.stderr}"
    )
    return printed


def _printed(block: Block, directory: Path) -> Path:
    return directory / f"printed-{block.line}.txt"


def _lines(block: Block, directory: Path) -> str:
    if "title" in block.options:
        source = directory / f"file-{block.line}"
        source.write_text(block.text)
        return f"cp {source} {block.options['title']}\n"
    code = int(block.options.get("exit", "0"))
    redirect = f"exec > {_printed(block, directory)} 2>&1\n"
    if not code:
        return redirect + block.text
    return f"{redirect}set +e; (set -e\n{block.text}); code=$?; set -e; [ $code = {code} ]\n"
