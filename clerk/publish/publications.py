"""The books on what was published: what is due, what is done, and what an operator took back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from clerk.archive.atomic_build import BuildResult
from clerk.errors import Superseded

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Publication:
    id: int
    done: frozenset[tuple[str, str]]
    """Steps and names that need not be done again."""
    announced: bool


def begin(
    connection: Connection, subdomain: str, run_id: int, built: BuildResult, lost_copy: bool = False
) -> Publication:
    """The run's publication of this content, new or taken up again; Superseded if it is not the present run."""
    connection.execute(
        """
        insert into publications (subdomain, run_id, content_hash, pages, begun_at, lost_copy)
        select s.subdomain, s.run_id, %(content)s, %(pages)s, clerk_now(), %(lost)s
        from sites s where s.subdomain = %(site)s and s.run_id = %(run)s
        on conflict (run_id, content_hash) do nothing
        """,
        {
            "site": subdomain,
            "run": run_id,
            "content": built.content_hash,
            "pages": built.pages,
            "lost": lost_copy,
        },
    )
    row = connection.execute(
        """
        select p.id from publications p join sites s on s.subdomain = p.subdomain and s.run_id = p.run_id
        where p.run_id = %s and p.content_hash = %s
        """,
        [run_id, built.content_hash],
    ).fetchone()
    if row is None:
        raise Superseded(f"run {run_id} of {subdomain} is over: a newer one publishes")
    return read(connection, row[0])


def pending_post_deploy(connection: Connection, subdomain: str, content_hash: str) -> Publication | None:
    """The newest publication, if it is of this content and went out before every post_deploy hook was done."""
    row = connection.execute(
        """
        select p.id, p.content_hash = %(content)s and p.announced_at is null and p.deployed_at is not null
        from publications p where p.subdomain = %(site)s order by p.id desc limit 1
        """,
        {"site": subdomain, "content": content_hash},
    ).fetchone()
    return read(connection, row[0]) if row is not None and row[1] else None


def read(connection: Connection, publication_id: int) -> Publication:
    steps = connection.execute("select step, name from publication_steps where publication_id = %s", [publication_id])
    done = frozenset((step, name) for step, name in steps)
    row = connection.execute(
        "select announced_at is not null from publications where id = %s", [publication_id]
    ).fetchone()
    return Publication(publication_id, done, row is not None and bool(row[0]))


def last_deployed(connection: Connection, subdomain: str, deployer: str) -> str | None:
    """Content hash of what this deployer published last."""
    row = connection.execute(
        """
        select p.content_hash from publications p
        join publication_steps s on s.publication_id = p.id and s.step = 'deploy' and s.name = %s
        where p.subdomain = %s order by p.id desc limit 1
        """,
        [deployer, subdomain],
    ).fetchone()
    return None if row is None else str(row[0])


def is_published(connection: Connection, subdomain: str) -> bool:
    """Any deployer has given any of it to readers."""
    row = connection.execute(
        "select exists (select from publications p join publication_steps s on s.publication_id = p.id"
        " and s.step = 'deploy' where p.subdomain = %s)",
        [subdomain],
    ).fetchone()
    return row is not None and bool(row[0])


def is_rolled_back(connection: Connection, subdomain: str, deployer: str) -> bool:
    """An operator took back what this deployer published last."""
    row = connection.execute(
        """
        select p.withdrawn_at is not null from publications p
        join publication_steps s on s.publication_id = p.id and s.step = 'deploy' and s.name = %s
        where p.subdomain = %s order by p.id desc limit 1
        """,
        [deployer, subdomain],
    ).fetchone()
    return row is not None and bool(row[0])


def record_step(connection: Connection, publication: Publication, step: str, name: str, result: str | None) -> None:
    connection.execute(
        """
        insert into publication_steps (publication_id, step, name, done_at, result)
        values (%s, %s, %s, clerk_now(), left(%s, 500))
        on conflict do nothing
        """,
        [publication.id, step, name, result],
    )


def record_deployed(connection: Connection, publication: Publication) -> None:
    connection.execute(
        "update publications set deployed_at = coalesce(deployed_at, clerk_now()) where id = %s", [publication.id]
    )


def record_announced(connection: Connection, publication: Publication) -> None:
    connection.execute(
        "update publications set announced_at = coalesce(announced_at, clerk_now()) where id = %s", [publication.id]
    )


def record_rollback(connection: Connection, subdomain: str, to: str, withdrawn: list[str], by: str) -> None:
    """Content hashes: of what is shown again, and of what was taken back for it."""
    connection.execute(
        """
        update publications p
        set withdrawn_at = case when p.content_hash <> %(to)s then coalesce(p.withdrawn_at, clerk_now()) end,
            withdrawn_by = case when p.content_hash <> %(to)s then coalesce(p.withdrawn_by, left(%(by)s, 500)) end
        where p.subdomain = %(site)s and (p.content_hash = any (%(withdrawn)s) or p.content_hash = %(to)s)
        """,
        {"site": subdomain, "to": to, "withdrawn": withdrawn, "by": by},
    )


def record_pages(connection: Connection, subdomain: str, run_id: int, pages: int) -> None:
    connection.execute("update sites set pages = %s where subdomain = %s and run_id = %s", [pages, subdomain, run_id])
