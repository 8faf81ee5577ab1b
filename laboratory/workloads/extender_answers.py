"""Answers of an extender of the plugin ``extender``: random, but the same to the same question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from zlib import crc32

from shard_worker.dialects.volcano.plugins.node.extender import ExtenderQuestion

REFUSES = 8
"""One node in so many is refused."""


def refuses(job: str, node: str) -> bool:
    """Whether the extender keeps a job (namespace/name) from a node."""
    return crc32(f"{job} {node}".encode()) % REFUSES == 0


def extender_answer(verb: str, body: bytes) -> dict[str, object]:
    """The answer to the JSON that was posted to the address of this verb."""
    question = json.loads(body)
    match verb:
        case "predicate":
            return {"code": int(refuses(question["task"]["job"], question["node"]))}
        case "prioritize":
            return {"nodeScore": {str(name): i for i, name in enumerate(question["nodes"])}}
        case _:
            names = [f"{v['namespace']}/{v['name']}" for v in question["evictees"]]
            return {"victims": names}


def ask_in_process(questions: Sequence[ExtenderQuestion]) -> dict[str, object]:
    """Answer without HTTP; for runs on virtual time."""
    return {
        question.key: extender_answer(question.url.rpartition("/")[2], question.body.encode())
        for question in questions
    }
