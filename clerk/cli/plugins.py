"""`clerk plugins`, and how plugins add commands of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from clerk import config
from clerk.cli.output import json_option, print_json, say, table
from clerk.errors import WRONG, ClerkError
from clerk.plugins import manager
from clerk.plugins.fetcher import Fetcher
from clerk.plugins.isolation import PluginFailed, PluginHung, PluginMissing, PluginRaised
from clerk.sites import SiteRefused


class GroupWithPlugins(click.Group):
    """Built-in commands first; plugins are loaded only for the list of commands, and for names that are not ours."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        own = super().list_commands(ctx)
        try:
            return sorted({*own, *_commands()})
        except ClerkError as error:
            say(f"clerk: {error}")
            return own

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _commands().get(cmd_name)


def _commands() -> dict[str, click.Command]:
    plugins = manager.load(config.load())
    commands: dict[str, click.Command] = {}
    for plugin, call in plugins.implementations("register_cli_commands"):
        try:
            # Commands run in the caller's thread as always: a person can stop them.
            returned = call()
            found = [returned] if isinstance(returned, click.Command) else list(returned or [])
            commands |= {_name(plugin, command): command for command in found}
        except Exception as error:  # noqa: BLE001 (one plugin's mistake must not take away the others' commands)
            say(f"clerk: the commands of plugin {plugin} cannot be used ({type(error).__name__}: {error}).")
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


@click.command()
@click.option("--fetcher", metavar="LABEL", help="What goes into a site's extra for this fetcher, and who provides it.")
@json_option
def plugins(fetcher: str | None, as_json: bool) -> None:
    """List the plugins that are loaded, and from where. The exit code is 1 if one cannot be used.

    \b
    Examples:
      clerk plugins
      clerk --plugins-dir ./plugins plugins --json
      clerk plugins --fetcher legistar
    """
    found = manager.load(config.load())
    if fetcher is not None:
        _show_fetcher(found, fetcher, as_json)
        return
    if as_json:
        print_json(
            {
                "plugins": [{"name": one.name, "origin": one.origin, "hooks": one.hooks} for one in found.loaded],
                "problems": [{"name": one.name, "origin": one.origin, "error": one.error} for one in found.problems],
            }
        )
    else:
        rows: Iterable[tuple[str, ...]] = ((one.name, one.origin, ", ".join(one.hooks)) for one in found.loaded)
        table([("plugin", "from", "hooks"), *rows])
        for problem in found.problems:
            say(f"clerk: {problem.name} ({problem.origin}) cannot be used: {problem.error}")
    if found.problems:
        click.get_current_context().exit(WRONG)


def _show_fetcher(found: manager.Plugins, label: str, as_json: bool) -> None:
    try:
        plugin, kind = found.provided("fetcher_class", label, Fetcher)
    except PluginMissing as error:
        raise SiteRefused(
            f"no plugin provides the fetcher {label!r}", "see `clerk plugins` for what is loaded"
        ) from error
    except (PluginRaised, PluginFailed, PluginHung) as error:
        raise ClerkError(str(error), "mend or remove that plugin") from error
    if as_json:
        print_json({"fetcher": label, "plugin": plugin, "required": kind.required, "extra": dict(kind.extra_help)})
        return
    click.echo(f"{label}, provided by {plugin}. Keys of extra:")
    for key, text in kind.extra_help.items():
        click.echo(f"  {key}{' (required)' if key in kind.required else ''}: {text}")
