"""Asking an extender over HTTP, beside the session that needs its answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import urlsplit

from shard_worker.plugins.extender import FAILED, Question, Unanswered

T = TypeVar("T")

AT_ONCE = 16
"""Questions that are open at a time."""
LONGEST = 10 * 2**20
"""Bytes of an answer; a longer one is none."""
ROUNDS = 1000
"""How often a session may come to questions nobody thought of: then it is one that never ends."""

Ask = Callable[[Sequence[Question]], Mapping[str, object]]
"""Questions -> answers by their keys."""


def with_answers(run: Callable[[], T], known: dict[str, object], ask: Ask) -> T:
    """Run a session again and again until all its questions are answered.

    ``run`` begins from nothing each time, and reads ``known``: the world's ``objects.extender``."""
    for _ in range(ROUNDS):
        try:
            return run()
        except Unanswered as missing:
            known.update(ask(missing.questions))
    raise RuntimeError(f"the session still had questions to the extender after {ROUNDS} rounds")


def ask_over_http(questions: Sequence[Question]) -> dict[str, object]:
    """Ask all of them, several at a time. One that fails is answered by what went wrong."""
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(questions))) as pool:
        return dict(
            zip((question.key for question in questions), pool.map(_ask, questions), strict=True)
        )


def _ask(question: Question) -> object:
    try:
        return _post(question)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {FAILED: str(error) or type(error).__name__}


def _post(question: Question) -> object:
    at = urlsplit(question.url)
    kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    connection = kind(at.hostname or "", at.port, timeout=question.timeout)
    try:
        connection.request("POST", at.path, question.body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read(LONGEST + 1)
        if response.status != http.client.OK:
            raise ValueError(f"status {response.status}")
        if len(body) > LONGEST:
            raise ValueError(f"an answer of more than {LONGEST} bytes")
        answer: object = json.loads(body)
        return answer
    finally:
        connection.close()
