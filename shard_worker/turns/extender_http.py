"""HTTP calls to a scheduler extender, outside of the session that needs its answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from shard_worker.dialects.volcano.plugins.node.extender import FAILED, ExtenderQuestion, Unanswered

if TYPE_CHECKING:
    from shard_worker.view.view import View

T = TypeVar("T")

AT_ONCE = 16
"""Questions that are open at a time."""
LONGEST = 10 * 2**20
"""Largest response in bytes; a longer one counts as an error."""
ROUNDS = 1000
"""Limit on restarts of a session because of new questions: beyond it the session would never
end."""

PATIENCE_SECONDS = 1.5
"""Time from the start of a session after which it asks no more: its further questions are answered
as failed. A worker that stays silent a little longer is taken for dead."""

NO_TIME = {FAILED: "no time was left to ask"}

Ask = Callable[[Sequence[ExtenderQuestion]], Mapping[str, object]]
"""Questions -> answers by their keys."""


def with_answers(
    run: Callable[[], T],
    answers: dict[str, object],
    ask: Ask,
    *,
    patience: float = PATIENCE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Run a session again and again until all its questions are answered.

    ``run`` begins from nothing each time, and reads ``answers``, the world's
    ``objects.extender``."""
    until = clock() + patience
    for _ in range(ROUNDS):
        try:
            return run()
        # A rule cannot wait for HTTP inside a session, which is pure: the session stops at the
        # question and runs again from the start with the answer at hand.
        except Unanswered as missing:
            questions = missing.questions
            answers.update(
                ask(questions) if clock() < until else {q.key: NO_TIME for q in questions}
            )
    raise RuntimeError(f"the session still had questions to the extender after {ROUNDS} rounds")


def answered(run: Callable[[], T], *, view: View, ask: Ask) -> T:
    """Run a session over a live view. A session that has questions stops: the view is restored, and
    the session restarts with the answers, which are valid for it alone."""
    answers = view.known.objects.extender
    answers.clear()

    def once() -> T:
        amounts, things = view.columns.kept(), view.things.kept()
        try:
            return run()
        except Unanswered:
            view.columns.bring_back(amounts)
            view.things = things
            # Compiled classes have read amounts that are gone now; which rows, nobody wrote down.
            view.changes.mark_all(range(view.size))
            raise

    return with_answers(once, answers, ask)


def ask_over_http(questions: Sequence[ExtenderQuestion]) -> dict[str, object]:
    """Ask all questions, several at a time. A failed one is answered by its error."""
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(questions))) as pool:
        return dict(
            zip((question.key for question in questions), pool.map(_ask, questions), strict=True)
        )


def _ask(question: ExtenderQuestion) -> object:
    try:
        return _post(question)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {FAILED: str(error) or type(error).__name__}


def _post(question: ExtenderQuestion) -> object:
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
