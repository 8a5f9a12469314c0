"""`clerk completion`, and the names that a shell completes: sites, queues, fetchers and error codes.

The script that a shell loads runs clerk with COMPLETE_VARIABLE set; click then prints completions instead of running a
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import psycopg
from click.shell_completion import CompletionItem, get_completion_class

from clerk import config
from clerk.cli.group import COMPLETE_VARIABLE
from clerk.db.connection import connect_if_running
from clerk.errors import JOB_ERRORS, ClerkError
from clerk.pipeline.engine import QUEUES

PROGRAM = "clerk"
_SHELLS = ("bash", "zsh", "fish")
_MAX_SITES = 1000
_STATEMENT_SECONDS = 1.0


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for SHELL that completes commands, options, sites, queues, stages and fetchers.

    Sites are those of the database, if it answers within seconds; the embedded Postgres is not started for them.

    \b
    Examples:
      clerk completion bash > ~/.local/share/bash-completion/completions/clerk
      clerk completion zsh > ~/.zfunc/_clerk           # in ~/.zshrc: fpath+=~/.zfunc; autoload -U compinit; compinit
      clerk completion fish > ~/.config/fish/completions/clerk.fish
      source <(clerk completion bash)                  # only in this shell
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source())


class CompletedName(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no type parameter
    """A name that a shell completes, and that the command itself checks."""

    name = "text"

    def __init__(self, find_names: Callable[[str], Iterable[str]]) -> None:
        self.find_names = find_names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.find_names(incomplete) if name.startswith(incomplete)]


def complete_names(command: click.Command) -> None:
    """Give the parameters of a command and its subcommands that are names a type with completions."""
    for parameter in command.params:
        find_names = _NAMES.get(str(parameter.name))
        is_new_site = parameter.name == "subdomain" and command.name in ("add", "new")
        # Choices complete themselves.
        if parameter.type is click.STRING and find_names and not is_new_site:
            parameter.type = CompletedName(find_names)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete_names(subcommand)


def _sites(prefix: str) -> list[str]:
    """Nothing if the database does not answer: a shell that completes must not show errors."""
    try:
        with connect_if_running(config.load(), _STATEMENT_SECONDS) as connection:
            query = "select subdomain from sites where starts_with(subdomain, %s) order by 1 limit %s"
            return [name for (name,) in connection.execute(query, [prefix, _MAX_SITES])]
    except (ClerkError, psycopg.Error):
        return []


def _queues(prefix: str) -> list[str]:
    """Queues, also after a comma: `--queues ocr,fe`."""
    before, comma, _ = prefix.rpartition(",")
    return [f"{before}{comma}{queue}" for queue in QUEUES if queue not in before.split(",")]


def _fetchers(prefix: str) -> list[str]:
    # Imported here because the imports take half a second.
    from clerk.sources.vendors import BUILT_IN

    return sorted(BUILT_IN)


def _errors(prefix: str) -> list[str]:
    return sorted(JOB_ERRORS)


_NAMES: dict[str, Callable[[str], Iterable[str]]] = {
    "site": _sites,
    "sites": _sites,
    "subdomain": _sites,
    "queue": _queues,
    "queues": _queues,
    "scraper": _fetchers,
    "error": _errors,
}
"""Name of an argument or option → what completes it."""
