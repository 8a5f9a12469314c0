"""The `clerk` command. A group per file; what a command does lives elsewhere."""

from __future__ import annotations

import io
import sys
import traceback
from importlib import metadata

import click

from clerk.cli.group import GroupWithPlugins, plugins_dir_option
from clerk.errors import EXIT_FAILURE, EXIT_OK, ClerkError
from clerk.process import parent_death


def _version() -> str:
    try:
        return metadata.version("clerk")
    except metadata.PackageNotFoundError:
        return "unknown (run from a checkout that is not installed)"


# Each is imported when it is asked for: together they take a second, which a person notices at every command.
_COMMANDS = {
    "build-all": "clerk.cli.archive:build_all",
    "cancel": "clerk.cli.run_commands:cancel",
    "config": "clerk.cli.config:config",
    "dashboard": "clerk.cli.dashboard:dashboard",
    "db": "clerk.cli.db:db",
    "demo": "clerk.cli.demo:demo",
    "failures": "clerk.cli.failures:failures",
    "legacy": "clerk.cli.legacy:legacy",
    "metrics": "clerk.cli.metrics:metrics",
    "migrate-stuck-sites": "clerk.cli.legacy:migrate_stuck_sites",
    "pause": "clerk.cli.run_commands:pause",
    "pipeline-status": "clerk.cli.status:pipeline_status",
    "plugins": "clerk.cli.plugins:plugins",
    "reconcile-pipeline": "clerk.cli.reconcile_pipeline:reconcile_pipeline",
    "resume": "clerk.cli.run_commands:resume",
    "retry": "clerk.cli.run_commands:retry",
    "rewind": "clerk.cli.run_commands:rewind",
    "rollback": "clerk.cli.archive:rollback",
    "search": "clerk.cli.search:search_command",
    "serve": "clerk.cli.serve:serve",
    "site": "clerk.cli.site:site",
    "status": "clerk.cli.status:status",
    "up": "clerk.cli.up:up",
    "update": "clerk.cli.run_commands:update",
    "verify": "clerk.cli.verify:verify",
    "why": "clerk.cli.why:why",
    "worker": "clerk.cli.worker:worker",
}


@click.group(
    cls=GroupWithPlugins,
    built_in=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(_version())
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@plugins_dir_option
def cli(debug: bool) -> None:
    """Keep public-meeting archives: fetch, read, compile and publish what towns put out as PDFs.

    Without DATABASE_URL clerk runs a Postgres of its own under .clerk in the current folder.

    \b
    Start here:
      clerk up           run everything on this machine
      clerk site add     say where a town's documents are
      clerk status       what is there, and how it is going
      clerk config       the settings, and where each came from
    """


def main() -> None:
    parent_death.exit_with_parent()
    # Accepted anywhere, for it is typed after the fact: at the end of the line that went wrong.
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal cannot show must not end a command.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main([argument for argument in sys.argv[1:] if argument != "--debug"], standalone_mode=False)
        # Without standalone mode Click hands over what ctx.exit() was given.
        sys.exit(code if isinstance(code, int) else EXIT_OK)
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
        sys.exit(EXIT_FAILURE)


def _explain(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    click.echo(f"clerk: {sentence}", err=True)
