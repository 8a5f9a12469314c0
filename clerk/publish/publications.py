"""The `publications` table: what was published, which steps are done, and what was rolled back."""

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
    """(step, plugin name) of completed steps."""
    announced: bool


def begin(
    connection: Connection, subdomain: str, run_id: int, build: BuildResult, lost_copy: bool = False
) -> Publication:
    """Insert, or resume, the run's publication of this content. Raises Superseded if the site has a newer run."""
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
            "content": build.content_hash,
            "pages": build.pages,
            "lost": lost_copy,
        },
    )
    row = connection.execute(
        """
        select p.id from publications p join sites s on s.subdomain = p.subdomain and s.run_id = p.run_id
        where p.run_id = %s and p.content_hash = %s
        """,
        [run_id, build.content_hash],
    ).fetchone()
    if row is None:
        raise Superseded(f"run {run_id} of {subdomain} was superseded by a newer run")
    return read(connection, row[0])


def pending_post_deploy(connection: Connection, subdomain: str, content_hash: str) -> Publication | None:
    """The newest publication, if it has this content, is deployed, and has post_deploy hooks left to run."""
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
    """Content hash of the last publication by this deployer."""
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
    """Whether any deployer has ever published the site."""
    row = connection.execute(
        "select exists (select from publications p join publication_steps s on s.publication_id = p.id"
        " and s.step = 'deploy' where p.subdomain = %s)",
        [subdomain],
    ).fetchone()
    return row is not None and bool(row[0])


def is_rolled_back(connection: Connection, subdomain: str, deployer: str) -> bool:
    """Whether an operator rolled back the last publication by this deployer."""
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
    """`to` and `withdrawn` are content hashes: of the version that is current again, and of those rolled back."""
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
