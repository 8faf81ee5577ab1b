"""Rules of the ledger's scripts that a test changes, on servers in memory that come to be after it.

What is changed are texts of the scripts, so that a test says which line it takes away.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shared.ledger.memory import server
from shared.ledger.redis.calls import SCRIPTS


def change(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Put ``new`` in the place of the one ``old`` that there is in all scripts."""
    texts = [path.read_text() for path in SCRIPTS.glob("*.lua")]
    assert sum(text.count(old) for text in texts) == 1, old
    compiled = server.compiled

    def changed(text: bytes) -> Any:
        return compiled(text.replace(old.encode(), new.encode()))

    monkeypatch.setattr(server, "compiled", changed)


def insert_at_start(monkeypatch: pytest.MonkeyPatch, function: str, line: str) -> None:
    """Put a line at the beginning of a function, named by its head."""
    change(monkeypatch, f"{function}\n", f"{function}\n{line}\n")


def disable(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    """Let a condition never hold: ``if`` and ``then`` stand around it."""
    change(monkeypatch, f"if {condition} then", "if false then")


def count_when(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str], line: str, met: dict[str, str]
) -> None:
    """Let ``line`` count in ``seen`` what it meets. ``met``: name -> its condition in Lua."""
    declare = server.LUA.runtime.eval(b"function(met) rawset(_G, 'meet', met) end")
    declare(lambda name: counts.update((name.decode(),)))
    printed = [f"if {when} then meet('{name}') end " for name, when in met.items()]
    change(monkeypatch, line, "".join(printed) + line)
