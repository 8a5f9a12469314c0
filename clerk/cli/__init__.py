"""The `clerk` command. A group per file; what a command does lives elsewhere."""

from __future__ import annotations

import sys
import traceback
from importlib import metadata

import click

from clerk.cli.archive import build_all, rollback
from clerk.cli.configuration import config
from clerk.cli.dashboard import dashboard
from clerk.cli.database import db
from clerk.cli.demo import demo
from clerk.cli.failures import failures
from clerk.cli.legacy import legacy, migrate_stuck_sites
from clerk.cli.metrics import metrics
from clerk.cli.pipeline import cancel, pause, resume, retry, rewind, update
from clerk.cli.plugins import GroupWithPlugins, plugins, plugins_dir_option
from clerk.cli.reconciliation import reconcile_pipeline
from clerk.cli.search import search_command
from clerk.cli.site import site
from clerk.cli.status import pipeline_status, status
from clerk.cli.verification import verify
from clerk.cli.why import why
from clerk.cli.worker import worker
from clerk.errors import OK, WRONG, ClerkError


def _version() -> str:
    try:
        return metadata.version("clerk")
    except metadata.PackageNotFoundError:
        return "unknown (run from a checkout that is not installed)"


@click.group(cls=GroupWithPlugins, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_version())
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@plugins_dir_option
def cli(debug: bool) -> None:
    """Keep public-meeting archives: fetch, read, compile and publish what towns put out as PDFs.

    Without DATABASE_URL clerk runs a Postgres of its own under .clerk in the current folder.

    \b
    Start here:
      clerk db up        make or migrate the database
      clerk site add     say where a town's documents are
      clerk status       what is there, and how it is going
      clerk config       the settings, and where each came from
    """


for command in (
    build_all,
    cancel,
    config,
    dashboard,
    db,
    demo,
    failures,
    legacy,
    migrate_stuck_sites,
    metrics,
    pause,
    pipeline_status,
    plugins,
    reconcile_pipeline,
    resume,
    retry,
    rewind,
    search_command,
    rollback,
    site,
    status,
    update,
    verify,
    why,
    worker,
):
    cli.add_command(command)


def main() -> None:
    # Accepted anywhere, for it is typed after the fact: at the end of the line that went wrong.
    debug = "--debug" in sys.argv
    try:
        code = cli.main([argument for argument in sys.argv[1:] if argument != "--debug"], standalone_mode=False)
        # Without standalone mode Click hands over what ctx.exit() was given.
        sys.exit(code if isinstance(code, int) else OK)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("clerk: stopped.", err=True)
        sys.exit(130)
    except ClerkError as error:
        _explain(str(error), debug)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 (the last place where it can become a sentence)
        said = " ".join(str(error).split())
        _explain(f"unexpected {type(error).__name__} ({said}): please report it with the output of --debug.", debug)
        sys.exit(WRONG)


def _explain(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    click.echo(f"clerk: {sentence}", err=True)
