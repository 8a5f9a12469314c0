"""`clerk doctor`."""

from __future__ import annotations

import click

from clerk.cli.output import json_option, print_json, show, table, text
from clerk.doctor.database_checks import check_database
from clerk.doctor.finding import Finding, unknown
from clerk.doctor.machine_checks import check_machine, check_python, check_sandbox
from clerk.doctor.setting_checks import load_settings
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNKNOWN
from clerk.humanize import pluralize

_SHOWN = {"ok": "ok", "problem": "PROBLEM", "unknown": "?"}
_STYLES = {"ok": "green", "problem": "red", "unknown": "yellow"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check this machine, its settings and the database. Each problem has a remedy.

    Python, the programs and models of OCR, disks, memory, what the kernel offers to restrict processes that read
    documents, plugins, unknown and contradictory settings; connection, pooler, schema, roles and clock of the
    database. Changes nothing; a database that does not exist is not created.

    Exit code 0: all is well, 1: a problem, 3: something could not be checked.

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
    if as_json:
        checks = [
            {"name": finding.name, "status": finding.status, "what": finding.what, "remedy": finding.remedy}
            for finding in findings
        ]
        print_json({"ok": not problems and not unknowns, "checks": checks})
    else:
        _show(findings, problems, unknowns)
    click.get_current_context().exit(EXIT_FAILURE if problems else EXIT_UNKNOWN if unknowns else EXIT_OK)


def _show(findings: list[Finding], problems: int, unknowns: int) -> None:
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
    click.echo(f"\n{'; '.join(parts) or 'All is well'}.")
