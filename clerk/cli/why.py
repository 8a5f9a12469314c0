"""`clerk why`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.output import json_option, marked, print_json, show, text
from clerk.db.connection import read_only_snapshot
from clerk.db.sites import site_not_found
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state


@click.command()
@click.argument("site")
@json_option
def why(site: str, as_json: bool) -> None:
    """Explain the state of a site in one sentence. Adds a remedy and the evidence.

    \b
    Examples:
      clerk why springfield
      clerk why springfield --json
    """
    with open_pipeline(migrations_only=True, read_only=True) as connection, read_only_snapshot(connection):
        state = read_site_state(connection, site)
        if state is None:
            raise site_not_found(connection, site)
    explanation = explain(state)
    if as_json:
        print_json(explanation.as_dict())
        return
    show(
        text(f"{explanation.site}: {explanation.sentence}."),
        *([marked("→ ", explanation.remedy)] if explanation.remedy else []),
        *(marked("  ", evidence) for evidence in explanation.evidence),
    )
