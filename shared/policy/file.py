"""Policy files: the format of Volcano or of KAI, the Kubernetes ConfigMap that contains it, or a
SchedulingShard of KAI's operator.

The running scheduler and ``quadrant config check`` both read through here, so that they accept the
same files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.policy.dialect import parse_policy
from shared.policy.kai_shard import of_shard, render_shard
from shared.policy.model import Policy, PolicyError, PolicyProblem
from shared.policy.reading import load_yaml

KEY = "volcano-scheduler.conf"
"""Key of the policy in the ConfigMap of Volcano's installation."""
KAI_KEY = "config.yaml"
"""Key of the policy in the ConfigMap that KAI's operator makes."""
SHARD = "SchedulingShard"

ACCEPTED_FILE = "policy.accepted.json"
"""File in the run directory with the policy that the last coordinator accepted."""

_ENDINGS = (".conf", ".yaml", ".yml")
_LIMIT = 1 << 20
"""Maximum bytes; a ConfigMap cannot hold more."""


@dataclass(frozen=True, slots=True)
class PolicyText:
    """The text of a policy, and the ConfigMap that it came from, if any."""

    text: str
    document: dict[str, object]
    """The mapping that the text contains."""
    config_map: str = ""
    """``namespace/name`` of the ConfigMap; "" if there is none."""
    key: str = ""
    shard: str = ""
    """The name of the SchedulingShard that it was rendered from; "" if there is none."""

    def parse(self) -> Policy:
        """Parse the policy. Raises PolicyError; for a ConfigMap, fields are relative to the
        policy's key."""
        try:
            return parse_policy(self.document)
        except PolicyError as error:
            if not self.shard:
                raise
            problems = [of_shard(problem, self.document) for problem in error.problems]
            raise PolicyError(*problems) from None

    @property
    def holder(self) -> str:
        """The object that contains it, for people; "" for a plain file."""
        if self.shard:
            return f"{SHARD} {self.shard}"
        return f"ConfigMap {self.config_map}, key {self.key}" if self.config_map else ""


def read_text(name: Path | str) -> str:
    """The content of a file; ``-`` is standard input. Raises OSError or PolicyError."""
    if str(name) == "-":
        data = sys.stdin.buffer.read(_LIMIT + 1)
    else:
        with Path(name).open("rb") as stream:
            data = stream.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise PolicyError(f"the policy has more than {_LIMIT >> 20} MiB; name the right file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PolicyError("the policy is not text in UTF-8; name the right file") from None


def unwrap(text: str) -> PolicyText:
    """Extract the policy from a text. Raises PolicyError unless it contains exactly one."""
    document = load_yaml(text)
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        return _from_config_map(document)
    if isinstance(document, Mapping) and document.get("kind") == SHARD:
        return PolicyText(text, render_shard(document), shard=_name_of(document))
    if isinstance(document, Mapping) and "kind" in document and "apiVersion" in document:
        message = (
            f"{document['kind']!r} is not a ConfigMap or {SHARD}; give one, or the policy itself"
        )
        raise PolicyError(PolicyProblem("kind", message, repr(document["kind"])))
    return PolicyText(text, _mapping(document))


def _name_of(document: Mapping[str, object]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _from_config_map(document: Mapping[str, object]) -> PolicyText:
    data = document.get("data")
    if not isinstance(data, Mapping) or not data:
        raise PolicyError(
            PolicyProblem("data", f"this ConfigMap holds nothing; put the policy at {KEY}")
        )
    key = _key(sorted(map(str, data)))
    text = data[key]
    if not isinstance(text, str):
        raise PolicyError(
            PolicyProblem(
                f"data[{key}]", "is not text; write it as a block: key, colon, |", repr(text)
            )
        )
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    named = f"{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"
    return PolicyText(text, _mapping(load_yaml(text)), config_map=named, key=key)


def _key(keys: list[str]) -> str:
    """The ConfigMap key that has the policy: Volcano's or KAI's, or the only one that looks like a
    policy."""
    usual = [key for key in keys if key in (KEY, KAI_KEY)]
    if len(usual) == 1:
        return usual[0]
    files = [key for key in keys if key.endswith(_ENDINGS)]
    if len(files) == 1:
        return files[0]
    message = f"no key is {KEY}, and {len(files)} end in {', '.join(_ENDINGS)}"
    if usual:
        message = f"keys {' and '.join(usual)} both hold a policy"
    raise PolicyError(
        PolicyProblem(
            "data", f"{message}; keys: {', '.join(keys)}; rename the policy's", repr(keys)
        )
    )


def _mapping(document: object) -> dict[str, object]:
    if isinstance(document, Mapping) and all(isinstance(key, str) for key in document):
        return dict(document)
    message = f"{repr(document)[:60]} is not a mapping of names to values"
    raise PolicyError(PolicyProblem("the policy", message, repr(document)[:60]))
