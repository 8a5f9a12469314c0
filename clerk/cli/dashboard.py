"""`clerk dashboard`."""

from __future__ import annotations

import signal
import socket
import sys

import click

from clerk import config, logs
from clerk.cli.output import info
from clerk.db.connection import connect, database_url, direct_database_url, require_database, require_usable_pool
from clerk.errors import SettingError
from clerk.process import sd_notify
from clerk.web.auth import is_loopback

_MIN_TOKEN_LENGTH = 16
"""Of a token that protects actions."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8010,
    show_default=True,
    help="The port to listen on; 0: any free port.",
)
@click.option(
    "--token",
    help="Password that visitors must enter, with any user name. Other users of this machine can read command lines:"
    " CLERK_DASHBOARD_TOKEN is safer.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Allow visitors to retry, cancel, pause, resume, start runs, reconcile and add alerts. Each is recorded."
    " Needs a token of at least 16 characters.",
)
def dashboard(host: str, port: int, token: str | None, allow_actions: bool) -> None:
    """Serve the web page that shows the pipeline. Read-only without --allow-actions.

    A --host other than this machine needs a token, and an HTTPS proxy in front. Without a token, requests that a proxy
    forwarded are refused.

    \b
    Examples:
      clerk dashboard
      clerk dashboard --port 9000
      CLERK_DASHBOARD_TOKEN=... clerk dashboard --allow-actions
      CLERK_DASHBOARD_TOKEN=... clerk dashboard --host 0.0.0.0
    """
    settings = config.load()
    token = (token or "").strip() or settings.dashboard_token
    require_token(host, token, allow_actions)
    require_database(settings)
    # Imported here because the import of a web server is slow.
    from clerk.web.action_executor import ActionExecutor
    from clerk.web.app import QUERIES, create_app
    from clerk.web.db import ReadOnlyPool
    from clerk.web.server import serve

    logs.configure("human")
    # Raises SystemExit, so that the embedded Postgres is released.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        database_url(settings) as url,
        direct_database_url(settings) as direct_url,
        listen(host, port) as listener,
        ReadOnlyPool(url, settings.is_pooled) as pool,
    ):
        # A direct connection reports why it fails; the pool reports only a timeout.
        with connect(settings) as connection:
            require_usable_pool(settings, connection)
            pool.assume_role()
        pool.check(QUERIES)
        info(f"The dashboard is at {address(host, listener.getsockname()[1])} (stop with Ctrl-C).")
        sd_notify.notify(sd_notify.READY)
        try:
            executor = ActionExecutor(direct_url, settings.direct_database_setting) if allow_actions else None
            app = create_app(
                pool, token, settings.storage_dir, settings.publish_dir, executor, public_url=settings.public_url
            )
            serve(app, listener)
        except KeyboardInterrupt:
            return


def require_token(host: str, token: str | None, allow_actions: bool) -> None:
    if allow_actions and len(token or "") < _MIN_TOKEN_LENGTH:
        has = f"a token of {len(token)} characters" if token else "no token"
        raise SettingError(
            f"--allow-actions needs a token of at least {_MIN_TOKEN_LENGTH} characters; there is {has}",
            "set CLERK_DASHBOARD_TOKEN to a random one, such as the output of `openssl rand -hex 16`",
        )
    if token is None and not is_loopback(host):
        raise SettingError(
            f"a dashboard on {host or 'every address'} can be read by others",
            "set CLERK_DASHBOARD_TOKEN, or leave --host at 127.0.0.1",
        )


def address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def listen(host: str, port: int) -> socket.socket:
    """Called before anything else is started, so that a port in use is reported as one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingError(
            f"cannot listen on {host} port {port} ({error.strerror or error})", "choose another --host or --port"
        ) from error
