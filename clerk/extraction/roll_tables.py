"""Roll-call tables: a row per voter and a column per kind of vote, with a mark in one of them.

Spaces carry the columns, so tables are rewritten before spaces are collapsed: each row becomes "Krause - Yes".
"""

from __future__ import annotations

import re

_HEADER_WORD = re.compile(
    r"(?<![\w-])(ayes?|yeas?|yes|in favou?r|for|nays?|noes|no|opposed|against|abstain(?:ed|ing)?|abstentions?"
    r"|recused?|absent|excused"
    r"|sí|si|en contra|a favor)(?![\w-])",
    re.IGNORECASE,
)
_MARK = re.compile(r"(?<!\S)(?:\(?[XxÜü✓✔√☒☑■●*]\)?|[1])(?!\S)")
_BALLOT_WORDS = {"aye": "Aye", "yea": "Aye", "yes": "Aye", "in": "Aye", "for": "Aye", "sí": "Aye", "si": "Aye",
"a": "Aye",
                 "nay": "Nay", "noe": "Nay", "no": "Nay", "opposed": "Nay", "against": "Nay", "en": "Nay",
                 "abstain": "Abstain", "abstained": "Abstain", "abstaining": "Abstain", "abstention": "Abstain",
                 "recuse": "Abstain", "recused": "Abstain", "absent": "Absent", "excused": "Absent"}  # fmt: skip
_ROLES = {"moved": "Moved by", "mover": "Moved by", "motion": "Moved by", "seconded": "Seconded by",
"second": "Seconded by",
          "seconder": "Seconded by"}  # fmt: skip
_ROLE_WORD = re.compile(r"(?<![\w-])(moved|mover|motion|seconded|seconder|second)(?: by)?(?![\w-])", re.IGNORECASE)
_MAX_ROWS = 60
_MAX_LINE = 300
_MAX_EMPTY_LINES = 2


def rewrite_roll_tables(text: str) -> str:
    """Return the text with the rows of roll-call tables as "Name - Aye" lines."""
    lines = _join_labels(text.split("\n"))
    result: list[str] = []
    index = 0
    while index < len(lines):
        columns = _columns(lines[index])
        if columns is None:
            result.append(lines[index])
            index += 1
            continue
        rows, roles, end = _rows(lines, index + 1, columns)
        if not rows and (listed := _names_in_columns(lines, index)) is not None:
            rows, end = listed
            result += rows
            index = end
            continue
        if len(rows) < 2:
            result.append(lines[index])
            index += 1
            continue
        result += [*roles, "Roll call:", *rows]
        index = end
    return "\n".join(result)


_LABEL_LINE = re.compile(
    r"\s*(?:ayes?|yeas?|yes|nays?|noes|no|abstain(?:ed|ing)?|abstentions?|absent|excused) ?:\s*", re.IGNORECASE
)
_NAMES_LINE = re.compile(r"\s*(?:[A-Z][\w.,;'& -]{1,200}|None\.?|0)\s*")


def _join_labels(lines: list[str]) -> list[str]:
    """Join a column of labels with the column of names that a layout in columns has put after it."""
    result: list[str] = []
    index = 0
    while index < len(lines):
        end = index
        while end < len(lines) and end - index < 6 and _LABEL_LINE.fullmatch(lines[end]):
            end += 1
        labels = lines[index:end]
        names = lines[end : end + len(labels)]
        if len(labels) > 1 and len(names) == len(labels) and all(map(_NAMES_LINE.fullmatch, names)):
            result += [f"{label.strip()} {name.strip()}" for label, name in zip(labels, names, strict=True)]
            index = end + len(labels)
        else:
            result.append(lines[index])
            index += 1
    return result


_CELL = re.compile(r"\S+(?: \S+)*")
_NAME_CELL = re.compile(r"[A-Z][\w.,' -]{1,40}$")


def _names_in_columns(lines: list[str], index: int) -> tuple[list[str], int] | None:
    """Return the rolls of a table whose columns are lists of names below `AYES` and `NAYS`, and the line after it."""
    header = list(_CELL.finditer(lines[index]))
    if len(header) < 2 or not all(_HEADER_WORD.fullmatch(cell[0].strip()) for cell in header):
        return None
    names: list[list[str]] = [[] for _ in header]
    index += 1
    while index < len(lines) and lines[index].strip() and len(lines[index]) <= _MAX_LINE:
        cells = list(_CELL.finditer(lines[index]))
        if len(cells) > len(header) or not all(
            _NAME_CELL.match(cell[0]) and len(cell[0].split()) < 5 for cell in cells
        ):
            break
        for cell in cells:
            distances = [abs(column.start() - cell.start()) for column in header]
            names[distances.index(min(distances))].append(cell[0])
        index += 1
    if not any(names):
        return None
    return [f"{cell[0]}: {', '.join(column) or 'None'}" for cell, column in zip(header, names, strict=True)], index


def _columns(line: str) -> list[tuple[float, str]] | None:
    """Return the centre and the vote of each column if the line is the header of a table."""
    if len(line) > _MAX_LINE or ":" in line or "," in line:
        return None
    words = list(_HEADER_WORD.finditer(line))
    kinds = {_ballot(match[1]) for match in words}
    if len(words) < 2 or len(kinds) < 2:
        return None
    rest = _ROLE_WORD.sub("", _HEADER_WORD.sub("", line))
    if (
        len(
            re.sub(
                r"[\s|_-]|\b(?:names?|members?|councilmembers?|commissioners?|trustees?|directors?|vote|present|roll|call)\b",
                "",
                rest,
                flags=re.IGNORECASE,
            )
        )
        > 24
    ):
        return None
    columns = [(_position(line, match), _ballot(match[1])) for match in words]
    return columns + [(_position(line, match), _ROLES[match[1].lower()]) for match in _ROLE_WORD.finditer(line)]


def _ballot(word: str) -> str:
    first = word.lower().split()[0]
    return _BALLOT_WORDS.get(first) or _BALLOT_WORDS[first.rstrip("s")]


def _position(line: str, match: re.Match[str]) -> float:
    """The number of the cell in a table with bars, else the centre of the word."""
    return float(line.count("|", 0, match.start())) if "|" in line else (match.start() + match.end()) / 2


def _rows(lines: list[str], index: int, columns: list[tuple[float, str]]) -> tuple[list[str], list[str], int]:
    rows: list[str] = []
    roles: list[str] = []
    empty, end = 0, index
    while index < len(lines) and len(rows) < _MAX_ROWS:
        line = lines[index]
        if not line.strip(" |-+_"):
            empty += 1
            if empty > _MAX_EMPTY_LINES:
                break
            index += 1
            continue
        marks = list(_MARK.finditer(line.replace("|", " "))) if len(line) <= _MAX_LINE else []
        name = line[: marks[0].start()].strip(" |.:-") if marks else ""
        if not name or len(name) > 60 or not name[0].isupper():
            break
        for mark in marks:
            position = _position(line, mark)
            label = min(columns, key=lambda column: abs(column[0] - position))[1]
            if label in _ROLES.values():
                roles.append(f"{label} {name}")
            else:
                rows.append(f"{name} - {label}")
        empty = 0
        index += 1
        end = index
    return rows, roles, end
