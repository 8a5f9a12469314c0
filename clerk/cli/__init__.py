"""The `clerk` command. Each command has a file of its own, named after it."""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import click

from clerk.cli.group import COMPLETE_VARIABLE, GroupWithPlugins, plugins_dir_option
from clerk.cli.output import print_json_error, start_report
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNKNOWN, ClerkError, StorageError, UnexpectedError
from clerk.process import parent_death


def _version() -> str:
    try:
        return metadata.version("clerk")
    except metadata.PackageNotFoundError:
        return "unknown (run from a checkout that is not installed)"


# Imported on demand: importing all of them takes a second.
_COMMANDS = {
    "alert": "clerk.cli.alert:alert",
    "build-all": "clerk.cli.build_all:build_all",
    "cancel": "clerk.cli.cancel:cancel",
    "completion": "clerk.cli.completion:completion",
    "config": "clerk.cli.config:config",
    "dashboard": "clerk.cli.dashboard:dashboard",
    "db": "clerk.cli.db:db",
    "demo": "clerk.cli.demo:demo",
    "doctor": "clerk.cli.doctor:doctor",
    "document": "clerk.cli.document:document",
    "failures": "clerk.cli.failures:failures",
    "legacy": "clerk.cli.legacy:legacy",
    "metrics": "clerk.cli.metrics:metrics",
    "migrate-stuck-sites": "clerk.cli.migrate_stuck_sites:migrate_stuck_sites",
    "new": "clerk.cli.new:new",
    "pause": "clerk.cli.pause:pause",
    "pipeline-status": "clerk.cli.status:pipeline_status",
    "plugins": "clerk.cli.plugins:plugins",
    "purge": "clerk.cli.purge:purge",
    "reconcile-pipeline": "clerk.cli.reconcile_pipeline:reconcile_pipeline",
    "resume": "clerk.cli.pause:resume",
    "retry": "clerk.cli.retry:retry",
    "rewind": "clerk.cli.rewind:rewind",
    "rollback": "clerk.cli.rollback:rollback",
    "search": "clerk.cli.search:search_command",
    "search-index": "clerk.cli.search_index:search_index",
    "serve": "clerk.cli.serve:serve",
    "site": "clerk.cli.site:site",
    "status": "clerk.cli.status:status",
    "up": "clerk.cli.up:up",
    "update": "clerk.cli.update:update",
    "verify": "clerk.cli.verify:verify",
    "votes": "clerk.cli.votes:votes",
    "why": "clerk.cli.why:why",
    "worker": "clerk.cli.worker:worker",
}

_TOPICS = {
    "Run clerk": ("up", "worker", "dashboard", "serve", "demo"),
    "Add and fetch sites": ("site", "new", "update"),
    "See the state": ("status", "why", "failures", "verify", "doctor", "config", "metrics"),
    "Repeat, stop and repair": (
        "retry", "pause", "resume", "cancel", "rewind", "rollback", "purge", "reconcile-pipeline",
    ),
    "Use the archives": ("search", "alert", "votes", "document", "build-all", "search-index"),
    "Set up": ("db", "plugins", "completion"),
    "Legacy clerk": ("legacy", "migrate-stuck-sites", "pipeline-status"),
}  # fmt: skip
"""Sections of the help."""

_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    cls=GroupWithPlugins,
    built_in=_COMMANDS,
    topics=_TOPICS,
    context_settings=_CONTEXT,
    invoke_without_command=True,
)
@click.version_option(_version())
@click.option("--debug", is_flag=True, help="Show the traceback of an error. Accepted anywhere on the command line.")
@plugins_dir_option
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Build archives of public meetings: fetch PDFs, run OCR, compile and publish searchable databases.

    Without DATABASE_URL clerk runs an embedded Postgres under .clerk in the current folder. Without a command clerk
    shows the next step for the state that it finds.

    \b
    Start here:
      clerk up           run everything on this machine
      clerk site add     add a site and the source of its documents
      clerk status       show the state of the pipeline
      clerk config       show the settings and where each comes from
      clerk doctor       check this machine, its settings and the database
    """
    if context.invoked_subcommand is None:
        from clerk.cli.next_step import print_next_step

        print_next_step()


def main() -> None:
    run(cli)


def run(command: click.Command, name: str | None = None) -> NoReturn:
    """Run a command as the program `name`. An error becomes a sentence and an exit code."""
    parent_death.exit_with_parent()
    # Accepted anywhere, because people add it at the end of the command that failed.
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal's encoding lacks must not end a command.
            stream.reconfigure(errors="backslashreplace")
    start_report()
    try:
        _warn_about_unknown_variables()
        arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
        code = command.main(arguments, name, complete_var=COMPLETE_VARIABLE, standalone_mode=False, **_CONTEXT)
        # Without standalone mode Click returns the argument of ctx.exit().
        sys.exit(code if isinstance(code, int) else EXIT_OK)
    except click.ClickException as error:
        error.show()
        context = getattr(error, "ctx", None)
        remedy = f"see {context.command_path if context else 'clerk'} --help"
        _print_json_error(click.UsageError.__name__, error.format_message(), remedy)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        # A terminal shows ^C where the cursor is.
        click.echo("\nclerk: stopped." if sys.stderr.isatty() else "clerk: stopped.", err=True)
        sys.exit(130)
    except ClerkError as error:
        _print_error(str(error), debug)
        _print_json_error(getattr(error, "code", ClerkError.__name__), error.what, error.remedy)
        sys.exit(error.exit_code)
    except StorageError as error:
        _print_error(f"{error}: {error.remedy_of_command}.", debug)
        _print_json_error(error.code, str(error), error.remedy_of_command)
        sys.exit(EXIT_UNKNOWN)
    except Exception as error:  # noqa: BLE001 (the user gets a message instead of a traceback)
        message = f"unexpected {type(error).__name__} ({' '.join(str(error).split())})"
        remedy = "please report it with the output of --debug"
        _print_error(f"{message}: {remedy}.", debug)
        _print_json_error(UnexpectedError.code, message, remedy)
        sys.exit(EXIT_FAILURE)


def _warn_about_unknown_variables() -> None:
    """On standard error. Child processes inherit the variables, and do not repeat the warning."""
    if parent_death.is_child() or not (any(name.startswith("CLERK_") for name in os.environ) or Path(".env").is_file()):
        return
    # Imported here, so that help is shown without the imports of the settings.
    from clerk import config
    from clerk.suggestions import near_names

    # Compared without the prefix that all have.
    known = {setting.name.removeprefix(config.PREFIX): setting.name for setting in config.SETTINGS}
    for name, origin in config.unknown_variables():
        near = near_names(name.removeprefix(config.PREFIX), known, 1)
        remedy = f"; did you mean {known[near[0]]}?" if near else ": `clerk config` lists the settings."
        click.echo(f"clerk: warning: no setting {name} (from {origin}){remedy}", err=True)


def _print_error(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    click.echo(f"clerk: {sentence}", err=True)


def _print_json_error(code: str, message: str, remedy: str) -> None:
    """With --json a program that reads standard output gets the error too."""
    if "--json" in sys.argv:
        print_json_error(code, message, remedy)
