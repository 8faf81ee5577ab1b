"""The wire of this version: what it is made of, and that the command shows the right one."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import shard_worker.inquiry
import shard_worker.worker
import shared.messages
from shard_worker.worker.actor import ShardActor
from shard_worker.worker.wire import SENT, methods_of, own_wire, page, wire_digest
from shard_worker.worker.worker_version import WorkerVersion, own_version
from shared.codec.packed import Codec
from shared.ledger.redis.calls import PARTS, script
from shared.ledger.schema import SCHEMA
from shared.messages.messages import Turn
from shared.wire_digest import WIRE
from tests.conftest import ROOT


def test_the_command_shows_the_digest_that_workers_compute() -> None:
    assert own_wire() == WIRE
    assert (ROOT / "shared/wire_digest.py").read_text() == page(), "run: make reference"


def test_a_script_whose_text_changes_changes_it() -> None:
    scripts = {name: script(name)[1] for name in PARTS}
    base = wire_digest([Turn], methods={}, scripts=scripts)
    for name in PARTS:
        assert wire_digest([Turn], methods={}, scripts=scripts | {name: "another text"}) != base
    assert wire_digest([Turn], methods={}, scripts=dict(reversed(scripts.items()))) == base


def test_a_method_of_the_actor_that_comes_or_takes_something_else_changes_it() -> None:
    methods = methods_of(ShardActor)
    assert {"begin", "turns", "inquire"} <= methods.keys()
    base = wire_digest([Turn], methods=methods, scripts={})
    for changed in (
        methods | methods_of(WithMore),
        methods | methods_of(WithAnother),
        {name: text for name, text in methods.items() if name != "end"},
    ):
        assert wire_digest([Turn], methods=changed, scripts={}) != base


class WithMore:
    def more(self) -> bool:
        return True


class WithAnother:
    def begin(self, config: str) -> bytes:
        return config.encode()


_IN_RAY = """
import inspect, ray
from shard_worker.worker.actor import ShardActor
from shard_worker.worker.wire import methods_of
before = methods_of(ShardActor), inspect.signature(ShardActor.begin)
ray.remote(concurrency_groups={"life": 1})(ShardActor)
print(methods_of(ShardActor) == before[0], inspect.signature(ShardActor.begin) == before[1])
"""


def test_wire_digest_ignores_rays_changes_to_the_actor_class() -> None:
    """A worker computes it after Ray has loaded the class, a coordinator before."""
    command = [sys.executable, "-c", _IN_RAY]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert result.stdout == "True False\n", "its signature is another, its methods are the same"


def test_every_message_between_coordinator_and_worker_counts() -> None:
    """Every codec of the packages that hold such messages is of a type that the digest covers."""
    packages = (shared.messages, shard_worker.worker, shard_worker.inquiry)
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    folders = {str(Path(package.__path__[0])) for package in packages}
    heads = {
        name: value
        for module in list(sys.modules.values())
        if any(str(getattr(module, "__file__", "")).startswith(folder) for folder in folders)
        for name, value in vars(module).items()
        if isinstance(value, Codec)
    }
    assert len(heads) >= 7
    covered = {str(of) for of in SENT}
    assert {str(codec.of) for codec in heads.values()} <= covered


def test_a_worker_says_its_version_schema_and_wire() -> None:
    own = own_version()
    assert (own.schema, own.wire) == (SCHEMA, own_wire())
    assert WorkerVersion.decode(own.encode()) == own
    newer = own.encode()[:-1] + b',"more":[1]}'
    assert WorkerVersion.decode(newer) == own, "what a later version adds is left alone"
    for output in (b"", b"{}", b"[]", b"\xff", b'{"version":"1","schema":"x","wire":"y"}'):
        assert WorkerVersion.decode(output) is None


def test_versions_with_the_same_schema_and_wire_serve_together() -> None:
    one = WorkerVersion("1.0", 5, "aa")
    assert one.serves_with(WorkerVersion("1.1", 5, "aa"))
    assert not one.serves_with(WorkerVersion("1.0", 6, "aa"))
    assert not one.serves_with(WorkerVersion("1.0", 5, "ab"))
