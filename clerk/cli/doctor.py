"""`clerk doctor`."""

from __future__ import annotations

import click
import psycopg

from clerk.cli.output import json_option, print_json, show, table, text
from clerk.config import Settings
from clerk.db.connection import connect, read_only_snapshot
from clerk.doctor.database_checks import check_database
from clerk.doctor.finding import Finding, unknown
from clerk.doctor.machine_checks import check_machine, check_python, check_sandbox
from clerk.doctor.setting_checks import load_settings
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNKNOWN, ClerkError
from clerk.humanize import pluralize
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.status import read_status

_SHOWN = {"ok": "ok", "problem": "PROBLEM", "unknown": "?"}
_STYLES = {"ok": "green", "problem": "red", "unknown": "yellow"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check this machine, its settings and the database. Each problem has a remedy.

    Python, the programs and models of OCR, disks, memory, what the kernel offers to restrict processes that read
    documents, plugins, unknown and contradictory settings; connection, pooler, schema, roles and clock of the
    database. Changes nothing; a database that does not exist is not created. Problems of the pipeline are counted;
    `clerk status` lists them.

    Exit code 0: machine and database are in order, 1: a problem, 3: something could not be checked.

    \b
    Examples:
      clerk doctor
      clerk doctor --json
    """
    settings, findings = load_settings()
    if settings is None:
        why = "the settings are invalid"
        findings = [*findings, check_python(), check_sandbox(), unknown("machine", why), unknown("database", why)]
    else:
        findings = [*findings, *check_machine(settings), *check_database(settings)]
    problems = sum(finding.status == "problem" for finding in findings)
    unknowns = sum(finding.status == "unknown" for finding in findings)
    alerts = _count_alerts(settings) if settings is not None and _is_readable(findings) else None
    if as_json:
        checks = [
            {"name": finding.name, "status": finding.status, "what": finding.what, "remedy": finding.remedy}
            for finding in findings
        ]
        print_json({"ok": not problems and not unknowns, "checks": checks, "pipeline_problems": alerts})
    else:
        _show(findings, problems, unknowns, alerts)
    click.get_current_context().exit(EXIT_FAILURE if problems else EXIT_UNKNOWN if unknowns else EXIT_OK)


def _count_alerts(settings: Settings) -> int | None:
    """None if the status cannot be read."""
    try:
        with connect(settings) as connection, read_only_snapshot(connection):
            return len(find_alerts(read_status(connection)))
    except (ClerkError, psycopg.Error):
        return None


def _is_readable(findings: list[Finding]) -> bool:
    """Whether there is a database whose status can be read."""
    return any(finding.name == "schema" and finding.status == "ok" for finding in findings)


def _show(findings: list[Finding], problems: int, unknowns: int, alerts: int | None) -> None:
    rows = []
    for finding in findings:
        what = finding.what if finding.remedy is None else f"{finding.what}\n→ {finding.remedy}"
        cell = text("")
        for number, line in enumerate(what.splitlines()):
            cell.append("\n" if number else "").append(text(line))
        rows.append((text(_SHOWN[finding.status], _STYLES[finding.status]), finding.name, cell))
    show(table(rows))
    parts = [*([pluralize(problems, "problem")] if problems else [])]
    if unknowns:
        parts.append(f"{pluralize(unknowns, 'check')} could not be made")
    click.echo(f"\n{'; '.join(parts) or 'This machine and the database are in order'}.")
    if alerts is not None:
        state = f"{pluralize(alerts, 'problem')}, see `clerk status`" if alerts else "no problems"
        click.echo(f"The pipeline: {state}.")
