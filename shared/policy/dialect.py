"""Which scheduler's rules a policy asks for, told from the words that it uses.

A word that only one of the two has decides; both kinds of words in one file are a mistake. Where
every word means something in both, ``dialect: kai`` decides, and without it the file is Volcano's,
as all files were before there was a second dialect (docs/decisions/0061).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shared.policy import kai_names, volcano_names
from shared.policy.kai import parse_kai
from shared.policy.model import Dialect, Policy, PolicyError, PolicyProblem
from shared.policy.reading import load_yaml, mapping, nearest
from shared.policy.volcano import parse_volcano

FIELD = "dialect"
"""Field of a policy file that says it, in lower case."""

_VOLCANO_FIELDS = frozenset({"configurations", "metrics"})
_KAI_FIELDS = kai_names.FIELDS - {"actions", "tiers", FIELD}
_VOLCANO_ACTIONS = volcano_names.VOLCANO_ACTIONS.difference(kai_names.ACTIONS)
_KAI_ACTIONS = frozenset(kai_names.ACTIONS) - volcano_names.VOLCANO_ACTIONS
_ALL_KAI_PLUGINS = kai_names.PLUGINS.union(kai_names.REFUSED_PLUGINS)
_VOLCANO_PLUGINS = volcano_names.VOLCANO_PLUGINS - _ALL_KAI_PLUGINS
_KAI_PLUGINS = _ALL_KAI_PLUGINS - volcano_names.VOLCANO_PLUGINS


class DialectWord(NamedTuple):
    """A word of a policy that only one of the two has."""

    text: str
    """As it is told: ``plugin gang``."""
    field: str
    dialect: Dialect


def parse_policy(source: str | Mapping[str, object]) -> Policy:
    """Read a policy of either dialect from YAML text, or from the mapping that it contains.

    Raises PolicyError with every problem found, each by field (``tiers[1].plugins[0].name``).
    """
    document = mapping(load_yaml(source) if isinstance(source, str) else source, "the policy")
    dialect, because = dialect_of(document)
    if dialect is Dialect.KAI:
        return parse_kai(document, because)
    return parse_volcano({k: v for k, v in document.items() if k != FIELD}, because)


def dialect_of(document: Mapping[str, object]) -> tuple[Dialect, str]:
    """(dialect, why). Raises PolicyError where words of both are used."""
    written = document.get(FIELD)
    if written is not None and written not in tuple(Dialect):
        near = nearest(str(written), [*Dialect])
        message = f"{written!r} is no dialect; write volcano or kai"
        raise PolicyError(PolicyProblem(FIELD, message, repr(written), near))
    words: dict[Dialect, DialectWord] = {}
    if written is not None:
        dialect = Dialect(str(written))
        words[dialect] = DialectWord(f"{FIELD}: {written}", FIELD, dialect)
    for word in _words(document):
        words.setdefault(word.dialect, word)
    if len(words) > 1:
        kai, volcano = words[Dialect.KAI], words[Dialect.VOLCANO]
        message = (
            f"{volcano.text} is Volcano's and {kai.text} ({kai.field}) is KAI's; a policy is of "
            "one of the two: take one of them out"
        )
        raise PolicyError(PolicyProblem(volcano.field, message, volcano.text))
    for word in words.values():
        sources = (
            "the file says so" if word.field == FIELD else f"only {word.dialect.scheduler} has it"
        )
        return word.dialect, f"{word.text}: {sources}"
    return Dialect.VOLCANO, f"no word of it is KAI's alone; {FIELD}: kai would make it KAI's"


def _words(document: Mapping[str, object]) -> Iterator[DialectWord]:
    for field in document:
        if field in _VOLCANO_FIELDS:
            yield DialectWord(f"field {field}", field, Dialect.VOLCANO)
        elif field in _KAI_FIELDS:
            yield DialectWord(f"field {field}", field, Dialect.KAI)
    actions = document.get("actions")
    if isinstance(actions, str):
        for name in map(str.strip, actions.split(",")):
            if name in _VOLCANO_ACTIONS:
                yield DialectWord(f"action {name}", "actions", Dialect.VOLCANO)
            elif name in _KAI_ACTIONS:
                yield DialectWord(f"action {name}", "actions", Dialect.KAI)
    for path, plugin in _plugins(document.get("tiers")):
        yield from _words_of_plugin(path, plugin)


def _plugins(tiers: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """(path, plugin) of all that have the form of one; the reader tells what is wrong with the
    others."""
    for i, tier in enumerate(tiers if isinstance(tiers, list) else ()):
        plugins = tier.get("plugins") if isinstance(tier, Mapping) else None
        for j, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
            if isinstance(plugin, Mapping):
                yield f"tiers[{i}].plugins[{j}]", plugin


def _words_of_plugin(path: str, plugin: Mapping[str, object]) -> Iterator[DialectWord]:
    name = plugin.get("name")
    if name in _VOLCANO_PLUGINS:
        yield DialectWord(f"plugin {name}", f"{path}.name", Dialect.VOLCANO)
    elif name in _KAI_PLUGINS:
        yield DialectWord(f"plugin {name}", f"{path}.name", Dialect.KAI)
    for field in plugin:
        if field in volcano_names.FLAGS:
            yield DialectWord(f"switch {field}", f"{path}.{field}", Dialect.VOLCANO)
        elif field in kai_names.UNREAD_FLAGS:
            yield DialectWord(f"switch {field}", f"{path}.{field}", Dialect.KAI)
    arguments = plugin.get("arguments")
    for key in arguments if isinstance(arguments, Mapping) else ():
        if key in volcano_names.ARGUMENTS.get(str(name), ()):
            yield DialectWord(f"argument {key}", f"{path}.arguments.{key}", Dialect.VOLCANO)
        elif key in kai_names.ARGUMENTS.get(str(name), ()):
            yield DialectWord(f"argument {key}", f"{path}.arguments.{key}", Dialect.KAI)
