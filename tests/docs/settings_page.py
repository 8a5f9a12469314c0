"""docs/settings.md as it follows from `clerk.config.SETTINGS`; to write it anew: python -m tests.docs.settings_page"""

from __future__ import annotations

from pathlib import Path

from clerk.config import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_PREFACE = """\
# Settings

All settings are environment variables. A file `.env` in the current folder may hold them too, a `NAME=value` per
line, and so may a folder that `CREDENTIALS_DIRECTORY` names, a file per setting, as systemd's `LoadCredential=` makes
it. A variable of the real environment wins over both, the folder over `.env`, and an empty value counts as not set.
`clerk config` shows each setting with its value and where that came from, passwords left out.

A wrong value is one sentence and exit code 2. Characters with a meaning of their own in a URL are written as `%XX`
in user name and password: `@` as `%40`, `/` as `%2F`.

| setting | default | meaning |
| --- | --- | --- |
"""


def page() -> str:
    return _PREFACE + "".join(f"| `{setting.name}` | {setting.default} | {setting.help} |\n" for setting in SETTINGS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
