"""The shell script that starts the ledger in a container, run here with the embedded server."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.ledger.redis.server import find_binary
from tests.deploy.rendered import ROOT, compose, one, render
from tests.end_to_end.one_process.harness import free_port

PASSWORD = "s3cret-0123456789"


def _kubernetes() -> tuple[str, str]:
    pods = one(render("shadow"), "StatefulSet", "quadrant-ledger")["spec"]["template"]["spec"]
    command = pods["containers"][0]["command"]
    assert command[:2] == ["sh", "-euc"]
    return command[2], "/run/secrets/quadrant/password"


def _compose() -> tuple[str, str]:
    service = compose()["services"]["redis"]
    command = service["entrypoint"]
    assert command[:2] == ["sh", "-euc"]
    assert service["command"] == []
    return command[2].replace("$$", "$"), "/run/secrets/redis_password"


@pytest.fixture(params=[_kubernetes, _compose], ids=["kubernetes", "compose"])
def server(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[int]:
    """Its port. Paths of the container are replaced by ones of here."""
    script, password_file = request.param()
    port = free_port()
    config = (ROOT / "k8s/base/valkey.conf").read_text()
    config = config.replace("port 6379", f"port {port}").replace("dir /data", f"dir {short_dir}")
    (short_dir / "valkey.conf").write_text(config.replace("bind * -::*", "bind 127.0.0.1"))
    (short_dir / "password").write_text(PASSWORD + "\n")
    (short_dir / "run").mkdir()
    for there, here in (
        ("/etc/valkey/", f"{short_dir}/"),
        ("/run/ledger/", f"{short_dir}/run/"),
        (password_file, f"{short_dir}/password"),
        ("valkey-server", shlex.quote(str(find_binary()))),
    ):
        assert there in script, there
        script = script.replace(there, here)
    process = subprocess.Popen(["sh", "-euc", script], stdout=subprocess.DEVNULL)
    try:
        yield port
        process.terminate()
        assert process.wait(60) == 0, "the signal reaches the server, which ends in order"
    finally:
        process.kill()
        process.wait()


def test_it_is_durable_and_asks_for_the_password(server: int, short_dir: Path) -> None:
    client = redis.Redis(port=server, password=PASSWORD, decode_responses=True)
    with client:
        _wait(client)
        reports = {name: client.config_get(name)[name] for name in WANTED}
        assert reports == WANTED
    with redis.Redis(port=server) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    assert (short_dir / "run/valkey.conf").stat().st_mode & 0o077 == 0
    assert (short_dir / "appendonlydir").is_dir()


WANTED = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory-policy": "noeviction",
    "lua-time-limit": "60000",
}


def _wait(client: redis.Redis) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            client.ping()
            return
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
