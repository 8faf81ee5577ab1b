"""How a worker reports that it skipped a whole job: a reason, then a sentence.

It takes the place of node counts, so that a job has one list of reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.messages.reason import Reason

SEPARATOR = ": "
_WORDS = frozenset(reason.value for reason in Reason)


def written(word: Reason, sentence: str) -> str:
    return f"{word}{SEPARATOR}{sentence}"


def read(reasons: Iterable[str]) -> tuple[Reason, str] | None:
    """(reason, sentence) of the first entry that is a skip; None for none."""
    for text in reasons:
        word, separator, sentence = text.partition(SEPARATOR)
        if separator and word in _WORDS:
            return Reason(word), sentence
    return None
