"""Options of `clerk site add` and `edit` for the settings of the source: one per key that the fetchers declare.

`--path /srv/scans` is the same as `--extra '{"path": "/srv/scans"}'`. With --scraper, the options are those of that
fetcher; without it, those of all fetchers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from clerk import config
from clerk.errors import ClerkError, JobError
from clerk.plugins import manager
from clerk.sources.fetcher import Fetcher
from clerk.sources.site_keys import SITE_KEYS, describe_keys, key_type
from clerk.sources.site_validation import InvalidSite

_GIVEN = "clerk.cli.source_options.given"
_SCRAPER = "clerk.cli.source_options.scraper"
_LISTS = (".csv", ".json", ".jsonl", ".ndjson")
"""Extensions of a file that `manifest` reads."""
_FIRST = ("directory", "links", "manifest")
"""Fetchers whose settings are listed first: they are for sources without a system of a vendor."""
_MAX_LABELS = 3
"""Fetchers that the help of one option names."""


class SourceCommand(click.Command):
    """A command whose options include the settings of the source. `given_settings` returns their values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_SCRAPER] = _find_scraper(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own, *_source_options(ctx.meta.get(_SCRAPER), {name for each in own for name in each.opts})]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        of_source: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                (of_source if isinstance(parameter, _SettingOption) else own).append(record)
        for title, records in (("Options", own), ("Settings of the source", of_source)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class _SettingOption(click.Option):
    """An option for a key of `extra`."""

    def __init__(self, key: str, kind: type, help_: str) -> None:
        name = f"--{key.replace('_', '-')}"
        names = [f"{name}/--no-{name[2:]}" if kind is bool else name, f"extra_{key}"]
        metavar = "PATH" if kind is Path else "A,B" if kind is list else "TEXT"
        options: dict[str, Any] = {"default": None} if kind is bool else {"multiple": True, "metavar": metavar}
        super().__init__(names, help=help_, expose_value=False, callback=self._store, **options)
        self.key = key

    def _store(self, ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None and value != ():
            ctx.meta.setdefault(_GIVEN, {})[self.key] = value


def given_settings(ctx: click.Context) -> dict[str, Any]:
    """Key of `extra` → what the command line gives for it: texts, or True or False."""
    return dict(ctx.meta.get(_GIVEN, {}))


def parse_settings(fetcher: type[Fetcher], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `extra` for what was given on the command line. An empty text is None: the key is removed."""
    return {
        key: value if isinstance(value, bool) else _parse(key_type(fetcher, key), value) for key, value in given.items()
    }


def _parse(kind: type, texts: Sequence[str]) -> Any:
    if not any(texts):
        return None
    if kind is list:
        return [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if kind is Path:
        path = Path(texts[-1]).expanduser().absolute()
        # A link is kept: it may point elsewhere tomorrow.
        return str(path.resolve() if ".." in path.parts else path)
    values = [_parse_text(text) for text in texts]
    return values if len(values) > 1 else values[0]


def _parse_text(text: str) -> Any:
    """Lists and objects are written as JSON, truth values as true and false. Everything else is text."""
    if text.lstrip().startswith(("[", "{")) or text in ("true", "false"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def merge_settings(extra: str | None, settings: Mapping[str, Any], subdomain: str) -> str | None:
    """`extra` with these settings; a value of None removes a key."""
    if not settings:
        return extra
    try:
        values = json.loads(extra) if extra else {}
        if not isinstance(values, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise InvalidSite(f"{subdomain}: extra {str(extra)[:80]!r} is invalid", "use a JSON object") from error
    merged = {**values, **settings}
    return json.dumps({key: value for key, value in merged.items() if value is not None}, ensure_ascii=False)


def infer_scraper(given: Mapping[str, Any]) -> str:
    """The only fetcher that has all the given settings. A path is a folder, or a list of documents."""
    if set(given) - set(SITE_KEYS) == {"path"}:
        path = Path(given["path"][-1]).expanduser()
        return "manifest" if path.suffix.lower() in _LISTS and path.is_file() else "directory"
    fetchers = _fetchers(None)
    labels = [label for label, fetcher in fetchers.items() if set(given) <= set(describe_keys(fetcher))]
    options = ", ".join(f"--{key.replace('_', '-')}" for key in given)
    if not labels:
        raise click.UsageError(f"No scraper has the settings {options}: name the scraper with --scraper.")
    if len(labels) > 1:
        raise click.UsageError(f"{options}: name the scraper with --scraper: {', '.join(labels)}.")
    return labels[0]


def _find_scraper(arguments: Sequence[str]) -> str | None:
    """The value of --scraper, before the command line is parsed."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument.startswith("--scraper="):
            return argument.partition("=")[2]
        if argument == "--scraper" and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def _source_options(scraper: str | None, taken: set[str]) -> list[_SettingOption]:
    """An option for each setting, except for names that the command has for something else, such as --kind."""
    fetchers = dict(sorted(_fetchers(scraper).items(), key=lambda item: (item[0] not in _FIRST, item[0])))
    keys: dict[str, None] = {key: None for fetcher in fetchers.values() for key in fetcher.extra_help}
    options = []
    for key in [*keys, *(key for key in SITE_KEYS if key not in keys)]:
        if f"--{key.replace('_', '-')}" not in taken:
            kinds = {key_type(fetcher, key) for fetcher in fetchers.values() if key in fetcher.extra_help}
            kind = kinds.pop() if len(kinds) == 1 else str
            options.append(_SettingOption(key, kind, _describe(key, fetchers, one=scraper is not None)))
    return options


def _describe(key: str, fetchers: Mapping[str, type[Fetcher]], *, one: bool) -> str:
    """The help of an option: the description by the fetchers that have the key. `one`: there is one fetcher."""
    if key in SITE_KEYS:
        return _sentence(SITE_KEYS[key])
    texts = {label: fetcher.extra_help[key] for label, fetcher in fetchers.items() if key in fetcher.extra_help}
    if one:
        return _sentence(next(iter(texts.values())))
    # Only the beginning: with --scraper, the whole text is shown.
    labels_of: dict[str, list[str]] = {}
    for label, text in texts.items():
        labels_of.setdefault(text.partition(";")[0], []).append(label)
    if len(labels_of) > _MAX_LABELS:
        return f"Setting of {_join(list(texts))}: see --scraper NAME --help."
    return " ".join(f"{_sentence(text)[:-1]} ({_join(labels)})." for text, labels in labels_of.items())


def _join(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:_MAX_LABELS])
    return f"{shown} and {len(labels) - _MAX_LABELS} others" if len(labels) > _MAX_LABELS else shown


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _fetchers(scraper: str | None) -> dict[str, type[Fetcher]]:
    """The fetcher of this label; without one, or if there is none, all whose labels are known."""
    try:
        plugins = manager.load(config.load())
    except ClerkError:
        return {}  # the command itself reports it
    return _resolve(plugins, [scraper] if scraper else []) or _resolve(plugins, plugins.labels("fetcher_class"))


def _resolve(plugins: manager.Plugins, labels: Iterable[str]) -> dict[str, type[Fetcher]]:
    fetchers = {}
    for label in labels:
        try:
            _, fetchers[label] = plugins.resolve("fetcher_class", label, Fetcher)
        except JobError:
            continue  # the validation of the site reports it
    return fetchers
