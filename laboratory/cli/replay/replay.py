"""``quadrant replay``: what would be decided about a recorded cluster, and under another policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError, as_command_errors
from coordinator.cli.options.options import ModeChoice, Output
from coordinator.cli.options.policy_file import read_policy
from shared.units.times import moment

if TYPE_CHECKING:
    from laboratory.replay.cases import Case
    from laboratory.replay.kai.scenario import KaiScenario
    from laboratory.replay.outcome import ReplayResult
    from shared.manifests.kai.queue_usage import UsageParts


def replay(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Dumps as kubectl get -o yaml (or json) writes them, which are one cluster "
            "together; scenarios, or lists of them; - is stdin"
        ),
    ],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="Decide under this policy; else under the one in the dump or scenario",
        ),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            "--diff",
            metavar="FILE",
            help="Decide under this policy too, and show the differences; ends with 1 if there are"
            " any",
        ),
    ] = None,
    cycles: Annotated[
        int | None,
        typer.Option(
            "--cycles",
            min=1,
            max=10_000,
            metavar="N",
            help="Number of sessions, otherwise one; with --shards only 1, which stops at the end "
            "of one session",
            show_default=False,
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            min=1,
            max=1024,
            metavar="S",
            help="Decide as a service with this many shards: coordinator, workers and ledger on "
            "virtual time, until nothing changes (or with --cycles 1 to the end of one "
            "session); otherwise one session over everything",
        ),
    ] = None,
    mode: Annotated[
        ModeChoice, typer.Option("--mode", help="With --shards: use of other shards' nodes")
    ] = ModeChoice.NONE,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            metavar="K",
            help="With --shards: deals the nodes to the shards, and delays the messages",
        ),
    ] = 0,
    now: Annotated[
        str,
        typer.Option(
            "--now",
            metavar="TIME",
            help="The time of the session, as 2026-01-31T12:00:00Z; else when the dump was taken, "
            "or the latest time in it",
        ),
    ] = "",
    usage: Annotated[
        Path | None,
        typer.Option(
            "--usage",
            metavar="FILE",
            help="Usage of queues over time, for a KAI policy with usageDBConfig: queue: {cpu: "
            "0.25, memory: 0.2, gpu: 0.5}, parts of the cluster; otherwise that of a snapshot",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="TEXT", help="Only what has this text in its id")
    ] = "",
    output: Annotated[
        Output | None,
        typer.Option(
            "--output",
            "-o",
            help="table is for people, json is one object a line; table where all is a dump",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Decide a recorded cluster again: binds, evictions, nominations and reasons

    A dump has nodes, queues, PodGroups and pods. Pods with a node keep it; pods of other schedulers
    use their nodes and are not touched. Under a policy of KAI's (--policy), KAI's Queues, PodGroups
    and Topologies are read. Everything is decided in this process; nothing is sent anywhere.

    Between two sessions of --cycles one second passes: bound pods run, evicted pods have left their
    nodes and wait again, nominated pods wait for their nodes. Nothing else ends.

    Examples:

      kubectl get nodes,pods,podgroups,queues,hypernodes -A -o yaml > now.yaml

      quadrant replay now.yaml --policy volcano.yaml

      quadrant replay now.yaml --policy today.yaml --diff tomorrow.yaml --cycles 5

      quadrant snapshot | quadrant replay - --shards 4 --mode soft --seed 1
    """
    from laboratory.cli.replay.replay_text import run_case, run_kai

    asked = _ReplayFiles(files, only=only, now=now, usage=usage)
    cases = asked.cases(policy)
    form = output or (Output.TABLE if all(case.dump for case in cases) else Output.JSON)
    if shards is not None and cycles is not None and cycles > 1:
        raise CommandError(
            "--cycles: with --shards the run goes on until nothing changes, or with --cycles 1 to "
            "the end of one session; give 1, or leave one of them out",
            code=EXIT_USAGE,
        )
    several = (cycles or 1) > 1
    for case in cases:
        if case.kai is not None:
            _alone(case, diff is not None or several or (shards is not None and cycles is not None))
    others = [None for _ in cases] if diff is None else asked.cases(diff)
    changed = False

    def run(one: Case) -> Iterator[ReplayResult]:
        decided = run_case(one, cycles=cycles, shards=shards, mode=mode.value, seed=seed)
        return _checked(one, decided)

    for case, other in zip(cases, others, strict=True):
        if case.kai is not None:
            if shards is None:
                _show_kai(case.kai)
            else:
                decided = run_kai(case.kai, shards=shards, mode=mode.value, seed=seed)
                _show(case, _checked(case, decided), form, several=False)
            continue
        _say_notes(case, other)
        if other is None:
            _show(case, run(case), form, several=several)
        else:
            changed |= _show_difference(case, run(case), run(other), form)
    raise typer.Exit(EXIT_ERROR if changed else 0)


# --- what is asked ------------------------------------------------------------------------------


class _ReplayFiles:
    """The files, read once, as cases under one policy or another."""

    def __init__(self, files: list[Path], *, only: str, now: str, usage: Path | None) -> None:
        self._first = files[0]
        self._only = only
        self._now = _moment(now) if now else None
        self._usage = None if usage is None else _queue_usage(usage)
        self._sources = [_read(file) for file in files]

    def cases(self, policy: Path | None) -> list[Case]:
        """``policy``: decide under this file's. Raises CommandError."""
        from laboratory.replay.cases import read_cases
        from laboratory.replay.recorded import RecordError
        from laboratory.replay.scenario import ScenarioError
        from shared.policy.model import PolicyError

        chosen = None if policy is None else read_policy(policy)
        with as_command_errors(ScenarioError, RecordError, PolicyError):
            cases = read_cases(
                self._sources,
                policy=chosen,
                only=self._only,
                now=self._now,
                usage=self._usage,
            )
        if not cases and not self._only:
            raise CommandError(f"{self._first}: nothing is in it; give a dump or a scenario")
        return cases


def _queue_usage(file: Path) -> UsageParts:
    from shared.errors import InvalidInput
    from shared.manifests.kai.queue_usage import read_queue_usage
    from shared.manifests.text.errors import TextError

    try:
        return read_queue_usage(file.read_text())
    except OSError as error:
        raise CommandError(f"--usage {file}: cannot read it: {error.strerror}") from None
    except InvalidInput as error:
        raise CommandError(str(error.refusal("--usage", str(file)))) from None
    except (TextError, UnicodeDecodeError) as error:
        raise CommandError(f"--usage {file}: {error}") from None


def _read(file: Path) -> tuple[str, list[Any]]:
    from shared.manifests.text.errors import TextError, TextLimits
    from shared.manifests.text.text import read_values

    name = "stdin" if str(file) == "-" else str(file)
    try:
        text = sys.stdin.buffer.read() if name == "stdin" else file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: cannot read it: {error.strerror}") from None
    limits = TextLimits(size=1 << 30, objects=1_000_000, values=200_000_000)
    try:
        form = "json" if file.suffix == ".json" else "either"
        return name, read_values(text, form=form, limits=limits)  # type: ignore[arg-type]
    except TextError as error:
        raise CommandError(f"{name}: cannot be read: {error}") from None


def _moment(text: str) -> float:
    try:
        return moment(text)
    except ValueError:
        raise CommandError(
            f"--now: {text!r} is not a time; write it as 2026-01-31T12:00:00Z", code=EXIT_USAGE
        ) from None


# --- what is answered ---------------------------------------------------------------------------


def _checked(case: Case, results: Iterator[ReplayResult]) -> Iterator[ReplayResult]:
    from laboratory.replay.ledger_check import LedgerRefused
    from shared.policy.model import PolicyError

    try:
        yield from results
    except PolicyError as error:
        raise CommandError(f"{case.id}: {error}") from None
    except LedgerRefused as error:
        raise CommandError(f"{case.id}: {error}; please report it with the dump") from None


def _say_notes(case: Case, other: Case | None) -> None:
    from laboratory.replay.not_served import not_served

    notes = [*case.notes, *not_served(case.policy, case.recorded)]
    if other is not None:
        notes += [f"--diff: {line}" for line in not_served(other.policy, other.recorded)]
    for note in notes:
        sys.stderr.write(f"{case.id}: {note}\n")


def _alone(case: Case, more: bool) -> None:
    """Refuse what this version does for Volcano's scenarios only."""
    if more:
        raise CommandError(
            f"{case.id}: --diff and --cycles are not for scenarios of KAI, which say themselves "
            "how many rounds they run; leave them out",
            code=EXIT_USAGE,
        )


def _show_kai(scenario: KaiScenario) -> None:
    """One line for every state that the scenario's expectation is about."""
    from laboratory.replay.kai.outcome import as_json
    from laboratory.replay.kai.rounds import observed_states
    from laboratory.replay.ledger_check import LedgerRefused
    from laboratory.replay.recorded import RecordError
    from shared.policy.model import PolicyError

    with as_command_errors(RecordError, PolicyError, LedgerRefused):
        for observed in observed_states(scenario):
            typer.echo(json.dumps(as_json(scenario.id, observed)))


def _show(case: Case, results: Iterable[ReplayResult], form: Output, *, several: bool) -> None:
    from laboratory.cli.replay.replay_text import table_of

    for number, result in enumerate(results, start=1):
        document = result.as_json() | ({"cycle": number} if several else {})
        if form is Output.JSON:
            typer.echo(json.dumps(document))
        else:
            typer.echo(table_of(result, f"{case.id}, session {number}" if several else case.id))


def _show_difference(
    case: Case, ours: Iterable[ReplayResult], theirs: Iterable[ReplayResult], form: Output
) -> bool:
    from laboratory.cli.replay.replay_text import table_of_differences
    from laboratory.replay.compare import differences

    changes = differences(ours, theirs)
    if form is Output.JSON:
        for difference in changes:
            typer.echo(json.dumps(difference.as_json()))
    else:
        typer.echo(table_of_differences(case.id, changes))
    return bool(changes)
