"""A skip of a whole job on its way to people: the word of the closed list, then a sentence.

It travels where other reasons count nodes, so that one job has one line of reasons."""

from __future__ import annotations

from collections.abc import Container, Iterable

SEPARATOR = ": "


def written(word: str, sentence: str) -> str:
    return f"{word}{SEPARATOR}{sentence}"


def read(reasons: Iterable[str], words: Container[str]) -> tuple[str, str] | None:
    """(word, sentence) of the first reason that is a skip, None where none is."""
    for text in reasons:
        word, separator, sentence = text.partition(SEPARATOR)
        if separator and word in words:
            return word, sentence
    return None
