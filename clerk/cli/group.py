"""The `clerk` group: built-in commands, imported when asked for, and those that plugins add."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from clerk.cli.output import info
from clerk.errors import ClerkError


class GroupWithPlugins(click.Group):
    """Built-in commands first; plugins are loaded only for the list of commands, and for names that are not ours."""

    def __init__(self, *arguments: Any, built_in: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.built_in = built_in
        """Name → `module:attribute`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        own = sorted(self.built_in)
        try:
            return sorted({*own, *_commands()})
        except ClerkError as error:
            info(f"clerk: {error}")
            return own

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.built_in:
            return _commands().get(cmd_name)
        module, _, attribute = self.built_in[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


def _commands() -> dict[str, click.Command]:
    # Only here: a built-in command does not wait for what plugins may need.
    from clerk import config
    from clerk.plugins import manager

    plugins = manager.load(config.load())
    commands: dict[str, click.Command] = {}
    for plugin, call in plugins.implementations("register_cli_commands"):
        try:
            # Commands run in the caller's thread as always: a person can stop them.
            returned = call()
            found = [returned] if isinstance(returned, click.Command) else list(returned or [])
            commands |= {_name(plugin, command): command for command in found}
        except Exception as error:  # noqa: BLE001 (one plugin's mistake must not take away the others' commands)
            info(f"clerk: the commands of plugin {plugin} cannot be used ({type(error).__name__}: {error}).")
    return commands


def _name(plugin: str, command: Any) -> str:
    if not isinstance(command, click.Command) or not command.name:
        raise TypeError(f"{command!r} is not a click command with a name")
    return command.name


def use_folder(ctx: click.Context, parameter: click.Parameter, folder: Path | None) -> Path | None:
    """For `--plugins-dir`: from here on it is the setting, for worker processes that are started too."""
    if folder is not None:
        os.environ["CLERK_PLUGINS_DIR"] = str(folder.absolute())
    return folder


plugins_dir_option = click.option(
    "--plugins-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    callback=use_folder,
    is_eager=True,
    expose_value=False,
    help="A folder of plugins; goes before CLERK_PLUGINS_DIR.",
)
