"""Losses of the ledger: when, which, and what the server finds afterwards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from laboratory.chaos.kubernetes.loss import (
    AGES,
    FILES,
    LedgerLoss,
    LossKind,
    acts_of,
    copy_files,
    draw_loss,
    lose,
)
from laboratory.chaos.plan import KUBERNETES_TARGETS, plan
from laboratory.chaos.report import RunFailed
from laboratory.own_directory import MARKER, NotOwnDirectory

DURATION = 60.0


def test_seeds_cycle_through_no_loss_emptied_ledger_and_old_copy() -> None:
    losses = [draw_loss(seed, DURATION) for seed in range(30)]
    kinds = Counter(None if loss is None else loss.kind for loss in losses)
    assert kinds == {None: 10, LossKind.EMPTIED: 10, LossKind.OLD_COPY: 10}
    ages = [loss.age for loss in losses if loss and loss.kind is LossKind.OLD_COPY]
    assert all(AGES[0] <= age <= AGES[1] for age in ages)
    assert losses == [draw_loss(seed, DURATION) for seed in range(30)]


def test_a_run_that_is_too_short_for_a_copy_loses_nothing() -> None:
    assert draw_loss(1, 25.0) is None


def test_every_fault_is_in_one_of_the_acts_at_its_time() -> None:
    blows = plan(2, DURATION, targets=KUBERNETES_TARGETS)
    first, second = acts_of(blows, DURATION, draw_loss(2, DURATION))
    assert first.duration + second.duration == DURATION
    assert (first.loss, second.loss) == (draw_loss(2, DURATION), None)
    again = [blow.at for blow in first.blows]
    again += [blow.at + first.duration for blow in second.blows]
    assert again == pytest.approx([blow.at for blow in blows])
    assert [act.blows for act in acts_of(blows, DURATION, None)] == [blows]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A directory that a run created."""
    (tmp_path / MARKER).touch()
    return tmp_path


@pytest.fixture
def data(own: Path) -> Path:
    """A data directory with the note of its ledger, and a server's files."""
    data = own / "data"
    (data / FILES).mkdir(parents=True)
    (data / "ledger.json").write_text("{}")
    (data / FILES / "aof.manifest").write_text("file incr.1")
    (data / FILES / "incr.1").write_text("old")
    return data


async def test_an_old_copy_takes_the_place_of_what_was_there(data: Path) -> None:
    copy = data / "copy"
    await copy_files(data, copy)
    (data / FILES / "incr.1").write_text("newer")
    lose(LedgerLoss(LossKind.OLD_COPY, 10.0), data, copy)
    assert (data / FILES / "incr.1").read_text() == "old"
    assert (data / "ledger.json").exists(), "what is known of it stays"


def test_an_emptied_ledger_keeps_only_its_identity_note(data: Path) -> None:
    lose(LedgerLoss(LossKind.EMPTIED), data, data / "copy")
    assert [path.name for path in data.iterdir()] == ["ledger.json"]


async def test_an_unreadable_ledger_directory_fails_the_run(own: Path) -> None:
    with pytest.raises(RunFailed, match=FILES):
        await copy_files(own, own / "copy")


@pytest.mark.parametrize("kind", [LossKind.EMPTIED, LossKind.OLD_COPY])
def test_the_files_of_a_ledger_that_no_run_created_stay(data: Path, kind: LossKind) -> None:
    (data.parent / MARKER).unlink()
    with pytest.raises(NotOwnDirectory, match="no run created it"):
        lose(LedgerLoss(kind, 0.0), data, data / "copy")
    assert (data / FILES / "incr.1").read_text() == "old"
