"""Names on the command line: an unknown one is an error that names the nearest known ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import click

from clerk.suggestions import require_known, unknown_name

_WHOLE_SENTENCE = 1000
"""Characters."""


class NameChoice(click.Choice):  # type: ignore[type-arg]  # click 8.1 has no type parameter
    """One of a few names of a kind, such as a queue or a stage."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        super().__init__(list(names))
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return require_known(self.kind, str(value), map(str, self.choices))


class Group(click.Group):
    """A group of commands that suggests the nearest names for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # A value that begins with a hyphen is an unknown option, about which click says more.
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            self._fail(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with the first sentence of their help, which click would cut to one line."""
        for title, names in self.sections(ctx).items():
            commands = {name: self.get_command(ctx, name) for name in names}
            rows = [
                (name, command.get_short_help_str(_WHOLE_SENTENCE))
                for name, command in commands.items()
                if command is not None and not command.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:
        """Title → commands, for the help."""
        return {"Commands": self.list_commands(ctx)}

    def _fail(self, ctx: click.Context, name: str) -> NoReturn:
        what = f"{ctx.command_path.partition(' ')[2]} command".strip()
        raise unknown_name(what, name, self.list_commands(ctx), f"`{ctx.command_path} --help` lists the commands")
