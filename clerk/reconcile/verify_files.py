"""Check of invariant I6: no partial file has a final name, and published databases are intact. Repairs nothing."""

from __future__ import annotations

from collections.abc import Callable

from clerk.archive import integrity as archive_integrity
from clerk.config import Settings
from clerk.db.migrations.verify import Check
from clerk.documents import integrity
from clerk.documents.integrity import PdfStatus
from clerk.documents.storage import Document, SiteStorage
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import SiteVersions
from clerk.reconcile.repair import Connection
from clerk.reconcile.storage_guard import StorageMissing, require_publish_dir, require_storage

NAME = "I6"
_TITLE = "no partial file has a final name, and published databases are intact"
_MAX_SITES = 10
"""Limit of the quick check, which runs every minute."""
_ALL_SITES = """
select s.subdomain, p.id is not null or coalesce(c.status = 'processed', false), coalesce(p.here, false)
from sites s
left join lateral (
    select p.id, exists (select from publication_steps t
                         where t.publication_id = p.id and t.step = 'deploy' and t.name = 'local') as here
    from publications p where p.subdomain = s.subdomain and p.deployed_at is not null order by p.id desc limit 1
) p on true
left join content_items a on a.subdomain = s.subdomain and a.kind = 'archive'
left join content_item_pipeline_state c on c.content_item_id = a.id and c.pipeline = 'compilation'
order by p.id desc nulls last, s.subdomain
"""
_NEWEST_PUBLICATIONS = """
select p.subdomain, true, bool_or(t.publication_id is not null)
from (select p.id, p.subdomain from publications p where p.deployed_at is not null order by p.id desc limit %(limit)s) p
left join publication_steps t on t.publication_id = p.id and t.step = 'deploy' and t.name = 'local'
group by 1
"""
_PUBLISHED_SITES = (
    "select count(*) from sites s where exists (select from publications p where p.subdomain = s.subdomain)"
)
_DOCUMENTS = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       i.fetch_error_code, i.fetch_error_message, coalesce(substring(i.storage_key from '[.](html|docx)$'), 'pdf'),
       i.size_bytes, coalesce(l.status = 'processed', false)
from content_items i
left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
where i.subdomain = %s and i.kind <> 'archive' and i.superseded_at is null
order by i.id
"""


def verify_files(
    connection: Connection,
    settings: Settings,
    full: bool = False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Check:
    """Check the databases published last; with `full`, those of all sites and the files of every document."""
    try:
        require_storage(connection, settings)
        require_publish_dir(connection, settings)
    except StorageMissing as missing:
        return Check(NAME, _TITLE, unknown=str(missing))
    sites = connection.execute(_ALL_SITES if full else _NEWEST_PUBLICATIONS, {"limit": _MAX_SITES}).fetchall()
    problems = []
    try:
        for number, (subdomain, compiled, published_here) in enumerate(sites, 1):
            if compiled:
                problems += _archives(settings, subdomain, published_here)
            if full:
                problems += _documents(connection, SiteStorage(settings.storage_dir, subdomain).snapshot())
            progress(number, len(sites))
    except OSError as error:  # a failing disk or missing permissions: the state of the files is unknown
        return Check(NAME, _TITLE, problems, f"a file is not readable ({error})")
    row = connection.execute(_PUBLISHED_SITES).fetchone()
    published = row[0] if row else 0
    scope = f"{published} published sites of {len(sites)}" if full else f"{len(sites)} of {published} published sites"
    return Check(NAME, f"{_TITLE} ({scope} checked)", problems)


def _archives(settings: Settings, subdomain: str, published_here: bool) -> list[str]:
    published = SiteVersions(settings.publish_dir, subdomain)
    databases: dict[str, StoragePath] = {"meetings.db": SiteStorage(settings.storage_dir, subdomain).database}
    if published_here:
        databases["the published copy"] = published.database
    found_problems = {name: archive_integrity.find_problem(path) for name, path in databases.items()}
    return [f"{subdomain}: {name} {problem}" for name, problem in found_problems.items() if problem is not None]


def _documents(connection: Connection, storage: SiteStorage) -> list[str]:
    problems = []
    for *columns, size, is_processed in connection.execute(_DOCUMENTS, [storage.subdomain]).fetchall():
        document = Document(*columns)
        name = f"{storage.subdomain}: {document.kind} of {document.meeting} {document.stem}"
        if is_processed and (problem := integrity.texts_status(storage, document, full=True).problem) is not None:
            problems.append(f"{name}: {problem}")
        if integrity.pdf_status(storage.pdf(document), document.sha256, size, full=True) is PdfStatus.DAMAGED:
            problems.append(f"{name}: its PDF differs from the fetched one")
    return problems
