"""Generates docs/settings.md from `clerk.config.SETTINGS`: python -m tests.docs.settings_page"""

from __future__ import annotations

from pathlib import Path

from clerk.config import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_HEADER = """\
# Settings

Settings are read, in this order of precedence, from environment variables, from the folder `CREDENTIALS_DIRECTORY` (one
file per setting, as made by systemd's `LoadCredential=`), and from a file `.env` in the current folder (one
`NAME=value` per line). An empty value counts as not set. `clerk config` shows each setting with its value and origin,
without passwords. {code} run programs: in `.env` they are an error.

An invalid value ends the command with exit code 2. In the user name and password of a URL, write special characters as
`%XX`: `@` as `%40`, `/` as `%2F`.

| setting | default | meaning |
| --- | --- | --- |
"""


def page() -> str:
    code = " and ".join(f"`{setting.name}`" for setting in SETTINGS if setting.executes_code)
    return _HEADER.replace("{code}", code) + "".join(
        f"| `{setting.name}` | {setting.default} | {setting.help} |\n" for setting in SETTINGS
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
