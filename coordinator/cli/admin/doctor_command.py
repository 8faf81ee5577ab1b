"""``quadrant doctor``: whether this machine can run it, and what to do where it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from coordinator.cli.options.failure import EXIT_ERROR
from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.output.terminal import console

if TYPE_CHECKING:
    from coordinator.cli.admin.doctor import DoctorFinding

API_VERSION = "quadrant.dev/v1alpha1"
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


def doctor(
    *,
    output: OutputOption = Output.TABLE,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Check this policy file")
    ] = None,
) -> None:
    """Check this machine and its settings, with a remedy for each problem

    Starts the embedded ledger in a temporary directory, imports Ray in a process of its own, and
    leaves nothing behind. Ends with 1 if a check failed; warnings alone end with 0.
    """
    from coordinator.cli.admin.doctor import DoctorPlace, DoctorVerdict, examine
    from coordinator.cli.admin.doctor_checks import CHECKS
    from coordinator.cli.run.up import usual_port
    from shared.settings.settings import SettingsError, load_settings

    try:
        place = DoctorPlace(load_settings(policy=policy, listen_port=usual_port()))
    except SettingsError as error:
        place = DoctorPlace(None, str(error))
    findings = examine(CHECKS, place)
    failed = sum(finding.verdict is DoctorVerdict.FAIL for finding in findings)
    if output is Output.JSON:
        typer.echo(
            json.dumps(
                {
                    "apiVersion": API_VERSION,
                    "kind": "Diagnosis",
                    "ok": not failed,
                    "checks": [finding.as_json() for finding in findings],
                }
            )
        )
    else:
        _show(findings, failed)
    raise typer.Exit(EXIT_ERROR if failed else 0)


def _show(findings: list[DoctorFinding], failed: int) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for header in ("CHECK", "VERDICT", "FOUND"):
        table.add_column(header, overflow="fold")
    for finding in findings:
        verdict = finding.verdict.value
        text = Text(finding.found)
        if finding.remedy:
            text.append(f"\nRemedy: {finding.remedy}")
        table.add_row(finding.check, Text(verdict, style=STYLES[verdict]), text)
    out.print(table)
    doubts = sum(finding.verdict.value == "warn" for finding in findings)
    word = f"{failed} of {len(findings)} checks failed" if failed else "No check failed"
    out.print(f"\n{word}, {doubts} warned" if doubts else f"\n{word}", markup=False)
