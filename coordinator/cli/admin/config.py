"""``quadrant config``: check a policy file; show the settings that count and where each is from.

NumPy is loaded only once a file reads well (the plugins are then asked what they do), Ray never.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from coordinator.cli.options.failure import EXIT_ERROR, as_command_errors
from coordinator.cli.options.options import ModeChoice, Output, OutputOption
from coordinator.cli.options.records import CommandGroup
from coordinator.cli.output.terminal import console, say_error

if TYPE_CHECKING:
    from coordinator.cli.admin.policy_report import PolicyReport
    from shared.policy.model import PolicyError

API_VERSION = "quadrant.dev/v1alpha1"

app = CommandGroup(no_args_is_help=True)


class ReportForm(StrEnum):
    """How settings are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@app.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Policy files in the form of Volcano or KAI, ConfigMaps that hold one, or a "
            "SchedulingShard; - reads standard input",
        ),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Check policy files and show their effect

    Ends with 0 if all are valid and with 1 otherwise. Every mistake is reported with its field and
    the nearest valid name.
    """
    results = [_judge(file) for file in files]
    if output is Output.JSON:
        documents = [result.as_json() for result in results]
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents))
    else:
        for result in results:
            result.show()
    if any(result.error is not None for result in results):
        raise typer.Exit(EXIT_ERROR)


class _Result:
    """The policy of one file, or its mistakes."""

    def __init__(self, file: str) -> None:
        self.name = "standard input" if file == "-" else file
        self.held_by = ""
        self.report: PolicyReport | None = None
        self.error: PolicyError | None = None

    def as_json(self) -> dict[str, Any]:
        head = {"apiVersion": API_VERSION, "kind": "PolicyCheck", "file": self.name}
        if self.held_by:
            head["configMap"] = self.held_by
        if self.report is not None:
            return {**head, "valid": True, "errors": [], **self.report.as_json()}
        problems = self.error.problems if self.error is not None else ()
        errors = [
            {"field": p.field, "value": p.value, "nearest": p.nearest, "message": p.message}
            for p in problems
        ]
        return {**head, "valid": False, "errors": errors}

    def show(self) -> None:
        if self.report is not None:
            from coordinator.cli.admin.policy_table import show

            holder = f" ({self.held_by})" if self.held_by else ""
            Console(highlight=False, soft_wrap=True).print(
                f"{self.name}{holder}: valid", markup=False
            )
            show(self.report, console())
        elif self.error is not None:
            problems = self.error.problems
            count = f"{len(problems)} mistake{'s' if len(problems) > 1 else ''}"
            say_error("\n  ".join([f"{self.name}: {count}", *map(str, problems)]))


def _judge(file: str) -> _Result:
    from shared.policy.file import read_text, unwrap
    from shared.policy.model import PolicyError

    result = _Result(file)
    try:
        source = unwrap(read_text(file))
        result.held_by = source.holder
        policy = source.parse()
        from coordinator.cli.admin.policy_report import report

        result.report = report(policy)
    except OSError as error:
        result.error = PolicyError(f"cannot read it: {error.strerror}; name a readable file")
    except PolicyError as error:
        result.error = error
    return result


@app.command()
def show(
    *,
    output: Annotated[
        ReportForm,
        typer.Option("--output", "-o", help="A table for people, JSON or YAML for scripts"),
    ] = ReportForm.TABLE,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show the origin and the meaning of each value")
    ] = False,
    shards: Annotated[int | None, typer.Option("--shards", help="As in quadrant up")] = None,
    mode: Annotated[ModeChoice | None, typer.Option("--mode", help="As in quadrant up")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="As in quadrant up")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="As in quadrant up")] = None,
) -> None:
    """Show the settings and the policy in force

    A flag overrides a QUADRANT_* variable, which overrides the file named by
    QUADRANT_SETTINGS_FILE, which overrides the default. Secrets are never shown.
    """
    from coordinator.cli.admin.effective import effective
    from shared.policy.model import PolicyError
    from shared.settings.settings import SettingsError

    flags = {"shards": shards, "mode": mode and mode.value, "seed": seed, "policy": policy}
    with as_command_errors(SettingsError, PolicyError):
        settings = effective(flags)
    if output is ReportForm.TABLE:
        from coordinator.cli.admin.policy_table import show as show_policy
        from coordinator.cli.admin.policy_table import show_settings

        out = console()
        show_settings(settings.settings, out, origin=origin)
        out.print(f"\nPolicy: {settings.policy_from}", markup=False)
        show_policy(settings.report, out)
        return
    document = {"apiVersion": API_VERSION, "kind": "Settings", **settings.as_json(origin=origin)}
    if output is ReportForm.JSON:
        typer.echo(json.dumps(document))
    else:
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False, default_flow_style=False), nl=False)
