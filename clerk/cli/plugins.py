"""`clerk plugins`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from clerk import config
from clerk.cli.output import info, json_option, print_json, table
from clerk.errors import EXIT_FAILURE, ClerkError, PluginFailed, PluginMissing, PluginRaised, PluginTimeout
from clerk.plugins import manager
from clerk.sources.fetcher import Fetcher
from clerk.sources.site_validation import InvalidSite


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
            info(f"clerk: {problem.name} ({problem.origin}) cannot be used: {problem.error}")
    if found.problems:
        click.get_current_context().exit(EXIT_FAILURE)


def _show_fetcher(found: manager.Plugins, label: str, as_json: bool) -> None:
    try:
        plugin, kind = found.resolve("fetcher_class", label, Fetcher)
    except PluginMissing as error:
        raise InvalidSite(
            f"no plugin provides the fetcher {label!r}", "see `clerk plugins` for what is loaded"
        ) from error
    except (PluginRaised, PluginFailed, PluginTimeout) as error:
        raise ClerkError(str(error), "mend or remove that plugin") from error
    if as_json:
        print_json({"fetcher": label, "plugin": plugin, "required": kind.required, "extra": dict(kind.extra_help)})
        return
    click.echo(f"{label}, provided by {plugin}. Keys of extra:")
    for key, text in kind.extra_help.items():
        click.echo(f"  {key}{' (required)' if key in kind.required else ''}: {text}")
