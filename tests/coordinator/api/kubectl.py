"""Stock kubectl against a service: ``$KUBECTL``, or the one in PATH."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

SECONDS = 90.0


def found() -> str | None:
    return os.environ.get("KUBECTL") or shutil.which("kubectl")


@dataclass(frozen=True, slots=True)
class KubectlOutput:
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"{self.code}\n{self.out}\n{self.err}"


class Kubectl:
    """``home`` keeps its caches, so that tests do not share them."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self._home = home

    async def __call__(self, *words: str, text: str = "", **environment: str) -> KubectlOutput:
        """Run a command. ``text`` goes to its standard input."""
        return await self.plugin(f"--server={self._url}", *words, text=text, **environment)

    async def plugin(self, *words: str, text: str = "", **environment: str) -> KubectlOutput:
        """Run a plugin, which takes kubectl's own options from nobody: it learns of the server by
        its environment."""
        program = found()
        assert program is not None
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._home),
                "KUBECONFIG": os.devnull,
                **environment,
            },
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await process.communicate(text.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return KubectlOutput(process.returncode, out.decode(), err.decode())

    async def ok(self, *words: str, text: str = "", **environment: str) -> str:
        """Output of a command that must succeed."""
        result = await self(*words, text=text, **environment)
        assert result.code == 0, (words, str(result))
        return result.out
