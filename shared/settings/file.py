"""The file of settings: YAML, names as in the environment but short (``shards: 8``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.policy.model import PolicyError
from shared.policy.reading import load_yaml


def read_settings_file(path: Path) -> dict[str, Any]:
    """Name -> value. Raises ValueError, which says what is wrong but not with which file."""
    try:
        document = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read it: {error.strerror}; name a readable file") from None
    except (PolicyError, UnicodeDecodeError) as error:
        raise ValueError(str(error).replace("the policy", "it", 1)) from None
    if document is None:
        return {}
    if isinstance(document, Mapping) and all(isinstance(key, str) for key in document):
        return dict(document)
    raise ValueError("it is not a mapping of names to values; write lines such as shards: 8")


def variable_of(name: str, prefix: str) -> str | None:
    """The environment variable that sets this name, in its actual spelling; None if there is none
    or it is empty."""
    variable = (prefix + name).lower()
    return next(
        (key for key, value in os.environ.items() if key.lower() == variable and value), None
    )


def read_secret(path: Path, variable: str) -> str:
    """The secret in the file that this variable names. Raises ValueError."""
    try:
        return path.read_text().strip()
    except OSError as error:
        problem = f"{variable}: cannot read {path}: {error.strerror}"
        raise ValueError(f"{problem}; name a readable file") from None
