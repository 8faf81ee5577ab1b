"""Texts and numbers to write into objects: those that our own code looks for, and those that cost
whoever reads them carelessly."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("shared", "coordinator", "shard_worker")
_LONGEST = 80

COSTLY = (
    "",
    ".",
    "/",
    "-",
    "%",
    "0",
    "-1",
    "0.5",
    "1/3",
    "nan",
    "inf",
    "1e400",
    "1e9999",
    "1e-9999",
    "1e999999999",
    "9" * 30,
    "9" * 5000,
    "9" * 5000 + "%",
    "0." + "3" * 5000,
    "0-999999999",
    "9" * 20 + "Gi",
    "0x1F",
    "\u0663",
    "\x00",
    "\ud7ff\uffff",
    "a" * 300,
    "a" * 20_000,
    "(" * 2000,
    "[" * 2000,
    '{"a":' * 500 + "1" + "}" * 500,
    '{"card/0": 1e999}',
    '{"card/0": [1, 2, 3, 4, 5]}',
    '{"nodeName":"n1","schedulerName":"x"}',
    ",".join(["GPU-1,10,1000,NVIDIA,true"] * 500) + ":",
    "a:" * 5000,
    "2026-02-30T25:61:61Z",
    "9999h" * 6,
)
NUMBERS = (0, -1, 1, 7, 2**31 - 1, 2**31, -(2**31), 2**53 - 1, 2**53, 2**63 - 1, -(2**63))
FRACTIONS = (0.5, -0.5, 1e308, 1e-308, 1e20)


def own_texts(root: Path) -> list[str]:
    """All short words of the product's code: whatever it may look for in an object."""
    texts: set[str] = set()
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            texts.update(_constants(file))
    return sorted(texts)


def own_keys(texts: list[str]) -> list[str]:
    """Filter the texts that can be the key of an annotation or a label."""
    return [text for text in texts if "/" in text.strip("/") and _is_key(text)] + [
        "gpu-fraction",
        "gpu-memory",
        "gpu-fraction-num-devices",
        "pod-group-name",
        "received-resource-type",
        "runai-gpu-group",
    ]


def _is_key(text: str) -> bool:
    domain, _, name = text.partition("/")
    plain = domain.replace(".", "").replace("-", "")
    short = name.replace("-", "").replace("_", "").replace(".", "")
    return "." in domain and plain.isalnum() and short.isalnum() and text.isascii()


def _constants(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Constant):
            value = node.value
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if isinstance(text, str) and len(text) <= _LONGEST and " " not in text:
                yield text.strip('"')
