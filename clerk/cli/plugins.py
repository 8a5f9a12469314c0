"""`clerk plugins`."""

from __future__ import annotations

from pathlib import Path

import click

from clerk import config
from clerk.cli.names import Group
from clerk.cli.output import info, json_option, print_json, show, table
from clerk.cli.plugins_new import new
from clerk.cli.plugins_record import record
from clerk.cli.plugins_try import accept, try_plugin
from clerk.errors import EXIT_FAILURE, ClerkError, PluginError, PluginMissing
from clerk.plugins import manager
from clerk.plugins.folder import plugin_files
from clerk.sources.fetcher import Fetcher
from clerk.suggestions import unknown_name


@click.group(cls=Group, invoke_without_command=True)
@click.option("--fetcher", metavar="LABEL", help="Show the plugin of a fetcher and the keys of `extra` for it.")
@json_option
@click.pass_context
def plugins(context: click.Context, fetcher: str | None, as_json: bool) -> None:
    """List the loaded plugins and where each comes from, or write one.

    The exit code of the list is 1 if a plugin cannot be used.

    \b
    Examples:
      clerk plugins
      clerk --plugins-dir ./plugins plugins --json
      clerk plugins --fetcher legistar
    """
    if context.invoked_subcommand is not None:
        if fetcher is not None or as_json:
            raise click.UsageError("--fetcher and --json belong to the list of plugins: give them without a command.")
        return
    settings = config.load()
    loaded = manager.load(settings, log_problems=fetcher is not None)
    if fetcher is not None:
        _show_fetcher(loaded, fetcher, as_json)
        return
    if as_json:
        print_json(
            {
                "plugins": [{"name": p.name, "origin": p.origin, "hooks": p.hooks} for p in loaded.loaded],
                "problems": [{"name": p.name, "origin": p.origin, "error": p.error} for p in loaded.problems],
            }
        )
    else:
        rows = [(plugin.name, plugin.origin, ", ".join(plugin.hooks) or "none") for plugin in loaded.loaded]
        show(table(rows, ("plugin", "from", "hooks")))
        for problem in loaded.problems:
            info(f"clerk: plugin {problem.name} ({problem.origin}): {problem.error}")
        if settings.plugins_dir is not None and not plugin_files(settings.plugins_dir):
            info(_describe_empty(settings.plugins_dir))
    if loaded.problems:
        context.exit(EXIT_FAILURE)


def _describe_empty(folder: Path) -> str:
    inside = [each for each in sorted(folder.iterdir()) if each.is_dir() and plugin_files(each)]
    hint = f"; {inside[0]} has some" if inside else ""
    return f"clerk: {folder} has no plugins, which are .py files and packages directly in that folder{hint}."


def _show_fetcher(loaded: manager.Plugins, label: str, as_json: bool) -> None:
    try:
        plugin, kind = loaded.resolve("fetcher_class", label, Fetcher)
    except PluginMissing as error:
        raise unknown_name("fetcher", label, loaded.labels("fetcher_class")) from error
    except PluginError as error:
        raise ClerkError(str(error), "fix or remove that plugin") from error
    if as_json:
        print_json({"fetcher": label, "plugin": plugin, "required": kind.required, "extra": dict(kind.extra_help)})
        return
    click.echo(f"{label}, provided by {plugin}. Keys of extra:")
    for key, text in kind.extra_help.items():
        click.echo(f"  {key}{' (required)' if key in kind.required else ''}: {text}")


plugins.add_command(new)
plugins.add_command(record)
plugins.add_command(try_plugin)
plugins.add_command(accept)
