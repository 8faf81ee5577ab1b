"""The run directory: a supervisor starts only in one that is its user's alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.supervisor.supervisor import CLUSTER, LEDGER, Supervisor, SupervisorError
from shared.settings.settings import load_settings

OTHER = 12345
"""Number of another user; nobody has to have it."""
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


async def start(run_dir: Path) -> None:
    """Start ledger and cluster there, and stop them."""
    async with Supervisor(load_settings(run_dir=run_dir), roles=(LEDGER, CLUSTER)) as running:
        running.check()


async def refusal(run_dir: Path) -> str:
    with pytest.raises(SupervisorError) as caught:
        await start(run_dir)
    return str(caught.value)


async def test_a_run_directory_made_by_the_supervisor_is_private_and_reusable(
    short_dir: Path,
) -> None:
    before = os.umask(0o002)  # that of users with a group of their own: files are the group's too
    try:
        run_dir = short_dir / "run"
        await start(run_dir)
        for place, folders, files in os.walk(run_dir):
            for name in (".", *folders, *files):
                mode = (Path(place) / name).stat().st_mode
                assert mode & 0o077 == 0, f"{place}/{name}: {mode:o}"
        await start(run_dir)
    finally:
        os.umask(before)


async def test_an_open_directory_is_refused_and_the_remedy_helps(short_dir: Path) -> None:
    run_dir = short_dir / "run"
    run_dir.mkdir(mode=0o755)
    message = await refusal(run_dir)
    assert message.startswith(f"QUADRANT_RUN_DIR: {run_dir} is open to others (mode 0755)")
    assert message.endswith(f"chmod go= {run_dir}")
    assert list(run_dir.iterdir()) == []
    run_dir.chmod(0o700)
    await start(run_dir)


@pytest.mark.all
async def test_the_state_directory_is_checked_like_it(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no setting says another, the ledger is not in the run directory."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    monkeypatch.setenv("XDG_STATE_HOME", str(short_dir / "state"))
    state_directory = short_dir / "state" / "quadrant"
    state_directory.mkdir(parents=True, mode=0o755)
    message = await refusal(short_dir / "quadrant")
    assert message.startswith(f"QUADRANT_DATA_DIR: {state_directory} is open to others (mode 0755)")
    state_directory.chmod(0o700)
    await start(short_dir / "quadrant")
    assert (state_directory / "data").is_dir()


async def test_a_link_is_refused(short_dir: Path) -> None:
    run_dir = short_dir / "run"
    for target in (short_dir / "there", short_dir / "nowhere"):
        run_dir.unlink(missing_ok=True)
        run_dir.symlink_to(target)
        assert "is a symbolic link" in await refusal(run_dir)
        (short_dir / "there").mkdir(exist_ok=True)


def _lock(run_dir: Path) -> None:
    (run_dir / "supervisor.lock").symlink_to(run_dir.parent / "victim")


def _history(run_dir: Path) -> None:
    (run_dir / "history.jsonl").symlink_to(run_dir.parent / "victim")


def _log(run_dir: Path) -> None:
    (run_dir / "log").mkdir()
    (run_dir / "log").chmod(0o770)


def _data(run_dir: Path) -> None:
    (run_dir / "data" / "appendonlydir").mkdir(parents=True)
    planted = run_dir / "data" / "appendonlydir" / "appendonly.aof.manifest"
    planted.touch()
    planted.chmod(0o666)


def _secret(run_dir: Path) -> None:
    (run_dir / "ray.token").touch()
    (run_dir / "ray.token").chmod(0o640)


def _policy(run_dir: Path) -> None:
    (run_dir / "policy.accepted.json").touch()
    (run_dir / "policy.accepted.json").chmod(0o604)


def _owner(run_dir: Path) -> None:
    (run_dir / "policy.accepted.json").touch()
    os.chown(run_dir / "policy.accepted.json", OTHER, -1)


def _owner_deep(run_dir: Path) -> None:
    (run_dir / "ray" / "session").mkdir(parents=True)
    os.chown(run_dir / "ray" / "session", OTHER, -1)


def _owner_link(run_dir: Path) -> None:
    (run_dir / "ray").mkdir()
    (run_dir / "ray" / "session_latest").symlink_to("/tmp")
    os.chown(run_dir / "ray" / "session_latest", OTHER, -1, follow_symlinks=False)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_lock, "symbolic link"),
        (_history, "symbolic link"),
        (_log, "others may write"),
        (_data, "others may write"),
        (_secret, "open to others"),
        (_policy, "open to others"),
        pytest.param(_owner, f"belongs to user {OTHER}", marks=root),
        pytest.param(_owner_deep, f"belongs to user {OTHER}", marks=root),
        pytest.param(_owner_link, f"belongs to user {OTHER}", marks=root),
    ],
)
async def test_a_run_directory_with_foreign_files_is_refused(
    plant: Callable[[Path], None], message: str, short_dir: Path
) -> None:
    run_dir = short_dir / "run"
    run_dir.mkdir(mode=0o700)
    (short_dir / "victim").write_text("kept")
    plant(run_dir)
    before = sorted(run_dir.rglob("*"))
    assert message in await refusal(run_dir)
    assert sorted(run_dir.rglob("*")) == before, "nothing was started"
    assert (short_dir / "victim").read_text() == "kept"


@root
async def test_a_directory_of_another_user_is_refused(short_dir: Path) -> None:
    run_dir = short_dir / "run"
    run_dir.mkdir(mode=0o700)
    os.chown(run_dir, OTHER, -1)
    assert f"belongs to user {OTHER}" in await refusal(run_dir)


@pytest.mark.all
async def test_leftovers_of_ray_are_accepted(short_dir: Path) -> None:
    run_dir = short_dir / "run"
    run_dir.mkdir(mode=0o700)
    session = run_dir / "ray" / "session_1"
    session.mkdir(parents=True)
    session.chmod(0o777)
    (run_dir / "ray" / "session_latest").symlink_to(session)
    await start(run_dir)
