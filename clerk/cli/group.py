"""The `clerk` command group: built-in commands, imported on demand, and commands of plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from clerk.cli.names import Group
from clerk.cli.output import info
from clerk.errors import ClerkError

COMPLETE_VARIABLE = "_CLERK_COMPLETE"
"""While it is set, click prints completions for a shell instead of running a command."""


class GroupWithPlugins(Group):
    """Built-in commands take precedence. Plugins are loaded only for the list of commands and for other names."""

    def __init__(
        self, *arguments: Any, built_in: Mapping[str, str], topics: Mapping[str, Sequence[str]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.built_in = built_in
        """Name → `module:attribute`."""
        self.topics = topics
        """Title of a section of the help → names of built-in commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        built_in = sorted(self.built_in)
        try:
            return sorted({*built_in, *_plugin_commands()})
        except ClerkError as error:
            info(f"clerk: {error}")
            return built_in

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:
        others = [name for name in self.list_commands(ctx) if name not in self.built_in]
        return {**{title: list(names) for title, names in self.topics.items()}, "Commands of plugins": others}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of built-in commands without their help, because importing all commands takes seconds. Plugins are
        loaded if no built-in command begins so."""
        names = [name for name in sorted(self.built_in) if name.startswith(incomplete)]
        if incomplete.startswith("-") or not names:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.built_in:
            return _plugin_commands().get(cmd_name)
        module, _, attribute = self.built_in[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        if COMPLETE_VARIABLE in os.environ:
            from clerk.cli.completion import complete_names

            complete_names(command)
        return command


def _plugin_commands() -> dict[str, click.Command]:
    # Imported here, so that built-in commands start without the imports of plugins.
    from clerk import config
    from clerk.plugins import manager

    plugins = manager.load(config.load())
    commands: dict[str, click.Command] = {}
    for plugin, call in plugins.implementations("register_cli_commands"):
        try:
            # Without a time limit: the user can interrupt it.
            returned = call()
            added = [returned] if isinstance(returned, click.Command) else list(returned or [])
            commands |= {_name(command): command for command in added}
        except Exception as error:  # noqa: BLE001 (an error of one plugin must not remove the commands of others)
            info(f"clerk: the commands of plugin {plugin} cannot be used ({type(error).__name__}: {error}).")
    return commands


def _name(command: Any) -> str:
    if not isinstance(command, click.Command) or not command.name:
        raise TypeError(f"{command!r} is not a click command with a name")
    return command.name


def set_plugins_dir(ctx: click.Context, parameter: click.Parameter, folder: Path | None) -> Path | None:
    """Set the environment variable, so that child processes inherit it."""
    if folder is not None:
        os.environ["CLERK_PLUGINS_DIR"] = str(folder.absolute())
    return folder


plugins_dir_option = click.option(
    "--plugins-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    callback=set_plugins_dir,
    is_eager=True,
    expose_value=False,
    help="A folder of plugins; overrides CLERK_PLUGINS_DIR.",
)
