"""`clerk rewind`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.names import NameChoice
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.db.sites import require_site
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES


@click.command()
@click.argument("site")
@click.option("--to", "stage", type=NameChoice("stage", STAGES), required=True, help="The first stage to repeat.")
@click.option(
    "--force-ocr",
    is_flag=True,
    help="With --to ocr: process every page again, by OCR, and ignore text layers. Takes about a second per page.",
)
@dry_run_option
@json_option
def rewind(site: str, stage: str, force_ocr: bool, dry_run: bool, as_json: bool) -> None:
    """Repeat a stage and all stages after it. Applies to every document of the site. An active run is superseded.

    The OCR stage does not process complete documents again, unless --force-ocr is given.

    \b
    Examples:
      clerk rewind springfield --to compilation
      clerk rewind springfield --to ocr --force-ocr
    """
    if force_ocr and stage != "ocr":
        raise click.UsageError("--force-ocr needs --to ocr")
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        require_site(connection, site)
        run_id = engine.rewind(connection, site, stage, force_ocr)
    if as_json:
        print_json({"run_id": run_id, "stage": stage, "force_ocr": force_ocr, "dry_run": dry_run})
    else:
        forced = ", every page by OCR" if force_ocr else ""
        click.echo(dry_run_prefix(dry_run, f"{site}: run {run_id} starts with {stage}{forced}"))
