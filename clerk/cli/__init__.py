"""The `clerk` command. A group per file; what a command does lives elsewhere."""

from __future__ import annotations

import sys
import traceback

import click

from clerk.cli.archive import build_all, rollback
from clerk.cli.configuration import config
from clerk.cli.database import db
from clerk.cli.demo import demo
from clerk.cli.pipeline import cancel, pause, resume, retry, rewind, update
from clerk.cli.plugins import GroupWithPlugins, plugins, plugins_dir_option
from clerk.cli.reconciliation import reconcile_pipeline
from clerk.cli.search import search_command
from clerk.cli.site import site
from clerk.cli.status import status
from clerk.cli.verification import verify
from clerk.cli.worker import worker
from clerk.errors import WRONG, ClerkError


@click.group(cls=GroupWithPlugins, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="clerk")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@plugins_dir_option
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
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
    db,
    demo,
    pause,
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
    worker,
):
    cli.add_command(command)


def main() -> None:
    debug = "--debug" in sys.argv[1:]
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("clerk: stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has left, which is its right. Python would complain at exit.
        sys.stderr.close()
        sys.exit(WRONG)
    except ClerkError as error:
        _explain(str(error), debug)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 (the last place where it can become a sentence)
        _explain(
            f"unexpected {type(error).__name__} ({error}): please report it with the output of --debug.",
            debug,
        )
        sys.exit(WRONG)


def _explain(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    click.echo(f"clerk: {sentence}", err=True)
