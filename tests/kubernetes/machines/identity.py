"""Identity for the API server, on the command line of a process that another machine runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laboratory.local_kubernetes.identity import Identity


def words_of(identity: Identity) -> list[str | Path]:
    """Command-line words of a user with a certificate."""
    assert identity.certificate is not None
    return [identity.server, identity.authority, identity.kubeconfig, *identity.certificate]


def identity_of(words: Sequence[str]) -> Identity:
    server, *files = words
    authority, kubeconfig, certificate, key = map(Path, files)
    return Identity(server, authority, kubeconfig, (certificate, key))
