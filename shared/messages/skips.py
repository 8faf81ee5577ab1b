"""How a worker reports that it skipped a whole job: a reason word, then a sentence.

It travels in the place of node counts, so that a job has one line of reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.messages.reason import Reason

SEPARATOR = ": "
_WORDS = frozenset(reason.value for reason in Reason)


def written(word: Reason, sentence: str) -> str:
    return f"{word}{SEPARATOR}{sentence}"


def read(reasons: Iterable[str]) -> tuple[Reason, str] | None:
    """(word, sentence) of the first reason that is a skip, None where none is."""
    for text in reasons:
        word, separator, sentence = text.partition(SEPARATOR)
        if separator and word in _WORDS:
            return Reason(word), sentence
    return None
