"""`clerk serve`."""

from __future__ import annotations

import signal
import sys

import click

from clerk import config, logs
from clerk.cli.dashboard import address, listening
from clerk.cli.output import info
from clerk.db.connection import database_url
from clerk.errors import ClerkError
from clerk.humanize import pluralize
from clerk.publish.versions import published_archives

_STOPPING_TAKES_AT_MOST = 5


class DatasetteMissing(ClerkError):
    """The extra is not installed."""

    code = "DatasetteMissing"


class NothingPublished(ClerkError):
    """There is no archive to serve."""

    code = "NothingPublished"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8011, show_default=True, help="0: any that is free.")
def serve(host: str, port: int) -> None:
    """Publish the archives on the web with Datasette: facets, full-text search, JSON.

    A version that is published meanwhile is served from the next request on. What is served is meant for the
    public: there is no token. Beyond this machine put something in front of it that speaks HTTPS.

    \b
    Examples:
      clerk serve
      clerk serve --host 0.0.0.0 --port 8080
    """
    settings = config.load()
    try:
        import uvicorn

        from clerk.datasette_app.app import create_app
        from clerk.datasette_app.site_metadata import SiteMetadata
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("datasette"):
            raise
        raise DatasetteMissing("Datasette is not installed", "pip install 'clerk[serve]'") from error
    published = len(published_archives(settings.publish_dir))
    if not published:
        raise NothingPublished(
            f"nothing is published under {settings.publish_dir}", "see how the sites are with `clerk status`"
        )
    logs.configure("human")
    # As an exception, so that the embedded Postgres learns that we have left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with database_url(settings) as url, listening(host, port) as listener:
        facts = SiteMetadata.from_postgres(url)
        with facts.refreshed_in_background():
            app = create_app(settings.publish_dir, settings.storage_dir, facts)
            where = address(host, listener.getsockname()[1])
            info(f"{pluralize(published, 'archive')} at {where} (Ctrl-C stops it).")
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    server_header=False,
                    timeout_graceful_shutdown=_STOPPING_TAKES_AT_MOST,
                )
            )
            try:
                server.run(sockets=[listener])
            except KeyboardInterrupt:
                return
