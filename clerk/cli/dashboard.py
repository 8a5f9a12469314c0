"""`clerk dashboard`."""

from __future__ import annotations

import signal
import socket
import sys

import click

from clerk import config, logs
from clerk.cli.output import info
from clerk.db.connection import connect_to, database_url
from clerk.errors import SettingError
from clerk.process import sd_notify
from clerk.web.auth import is_loopback


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8010, show_default=True, help="0: any that is free.")
@click.option(
    "--token",
    help="What a visitor must show, as the password with any user name. Others can see what stands on a command"
    " line: rather set CLERK_DASHBOARD_TOKEN.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Visitors may also retry, cancel, pause, resume, start runs and reconcile. Each is on record.",
)
def dashboard(host: str, port: int, token: str | None, allow_actions: bool) -> None:
    """Show the pipeline in a browser. It only reads, unless --allow-actions is given.

    Beyond this machine (--host) it wants a token, and something in front of it that speaks HTTPS.

    \b
    Examples:
      clerk dashboard
      clerk dashboard --port 9000
      clerk dashboard --allow-actions
      CLERK_DASHBOARD_TOKEN=... clerk dashboard --host 0.0.0.0
    """
    settings = config.load()
    token = (token or "").strip() or settings.dashboard_token
    require_token(host, token)
    # Only this command needs a web server: the others start quicker without.
    from clerk.web.action_executor import ActionExecutor
    from clerk.web.app import QUERIES, create_app
    from clerk.web.db import ReadOnlyPool
    from clerk.web.server import serve

    logs.configure("human")
    # As an exception, so that the embedded Postgres learns that we have left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with database_url(settings) as url, listening(host, port) as listener, ReadOnlyPool(url) as pool:
        # Asked directly, the database says at once what is wrong; the pool only that it waited.
        with connect_to(url):
            pool.assume_role()
        pool.check(QUERIES)
        info(f"The dashboard is at {address(host, listener.getsockname()[1])} (Ctrl-C stops it).")
        sd_notify.notify(sd_notify.READY)
        try:
            executor = ActionExecutor(url) if allow_actions else None
            serve(create_app(pool, token, settings.storage_dir, settings.publish_dir, executor), listener)
        except KeyboardInterrupt:
            return


def require_token(host: str, token: str | None) -> None:
    if token is None and not is_loopback(host):
        raise SettingError(
            f"on {host or 'every address'} others could read the dashboard",
            "set CLERK_DASHBOARD_TOKEN, or leave --host at 127.0.0.1",
        )


def address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def listening(host: str, port: int) -> socket.socket:
    """Bound before anything else is started, so that a taken port is one sentence and not a log."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingError(
            f"cannot listen on {host} port {port} ({error.strerror or error})", "choose another --host or --port"
        ) from error
