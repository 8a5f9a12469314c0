"""`clerk serve`."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack

import click

from clerk import config, logs
from clerk.cli.dashboard import address, listen
from clerk.cli.output import info
from clerk.db.connection import direct_database_url, has_database
from clerk.errors import ClerkError
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import current_versions

_SHUTDOWN_TIMEOUT = 5


class DatasetteMissing(ClerkError):
    """The extra `serve` is not installed."""

    code = "DatasetteMissing"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8011,
    show_default=True,
    help="The port to listen on; 0: any free port.",
)
@click.option("--allow-sql", is_flag=True, help="Allow visitors to run their own read-only SQL queries, within limits.")
def serve(host: str, port: int, allow_sql: bool) -> None:
    """Serve the published archives with Datasette. It has facets, full-text search and JSON.

    The home page searches all archives. A version that is published later is served from the next request on. The
    archives are public, so there is no token. A --host other than this machine needs an HTTPS proxy in front.

    \b
    Examples:
      clerk serve
      clerk serve --allow-sql
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
    published = len(current_versions(settings.publish_dir))
    logs.configure("human")
    # Raises SystemExit, so that the embedded Postgres is released.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack, listen(host, port) as listener:

        def find_database() -> str | None:
            return stack.enter_context(direct_database_url(settings)) if has_database(settings) else None

        metadata = SiteMetadata.from_postgres(find_database, settings.direct_database_setting)
        with metadata.refreshed_in_background():
            app = create_app(settings.publish_dir, settings.storage_dir, metadata, allow_sql)
            info(_greeting(published, address(host, listener.getsockname()[1]), settings.publish_dir))
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    server_header=False,
                    timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
                )
            )
            try:
                server.run(sockets=[listener])
            except KeyboardInterrupt:
                return


def _greeting(published: int, url: str, publish_dir: StoragePath) -> str:
    if published:
        return f"{pluralize(published, 'archive')} at {url} (stop with Ctrl-C)."
    return (
        f"Nothing has been published yet under {publish_dir}: {url} will show each archive as soon as it is published"
        " (stop with Ctrl-C). `clerk status` shows how far the sites are."
    )
