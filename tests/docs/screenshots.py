"""Retakes docs/images from the demo's archives: python -m tests.docs.screenshots"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from clerk.db.connection import connect_to
from tests.browser.conftest import BROWSERS, CHROMIUM_ARGS, Installation
from tests.datasette_app.conftest import Archives
from tests.datasette_app.test_command import serving

FOLDER = Path(__file__).parents[2] / "docs" / "images"
CLERK = (sys.executable, "-m", "clerk")
WIDTH = 1200
_DOCUMENT = "select id from content_items where subdomain = 'riverton' and date = '2024-05-28'"
_NEUTRAL_ADDRESS = """
update content_items set source_url = regexp_replace(source_url, '^file://.*/documents/', 'file:///srv/documents/')
"""
_NEUTRAL_PATH = "update sites set extra = jsonb_set(extra::jsonb, '{path}', to_jsonb('/srv/documents/' || subdomain))"


def main() -> None:
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        environment = {**os.environ, "CLERK_HOME": home, "CLERK_POSTGRES_IDLE_TIMEOUT": "600"}
        url = subprocess.check_output([*CLERK, "db", "url"], env=environment, text=True)
        installation = Installation(url.strip(), Path(home))
        installation.clerk("demo", "--quiet")
        with connect_to(installation.database) as connection:
            connection.execute(_NEUTRAL_PATH)
            connection.execute(_NEUTRAL_ADDRESS)
            (document,) = connection.execute(_DOCUMENT).fetchone() or (None,)
        worker = subprocess.Popen([*CLERK, "worker"], env=installation.environment)
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_ARGS)
        try:
            while subprocess.run([*CLERK, "worker", "--check"], env=installation.environment).returncode:
                time.sleep(1)
            with installation.dashboard() as address:
                _take(browser, "overview", f"{address}/", 1000)
                _take(browser, "site", f"{address}/sites/brokenbow", 900)
                _take(browser, "failures", f"{address}/failures", 720)
                path = f"/sites/riverton/documents/{document}?page=2&q=velodrome"
                _take(browser, "document", address + path, 980, scroll_to="text=Pages")
                _take(browser, "search", f"{address}/search?q=bike", 640, scheme="dark")
            with serving(
                installation.database, Archives(Path(home) / "storage", Path(home) / "storage" / "_published")
            ) as (
                _,
                address,
            ):
                _take(browser, "archive", f"{address}/riverton", 900)
                _take(browser, "votes", f"{address}/-/votes/riverton", 640, scheme="dark")
        finally:
            browser.close()
            worker.terminate()
            worker.wait()
            subprocess.run([*CLERK, "db", "stop", "--force"], env=environment, check=True)


def _take(
    browser: Browser,
    name: str,
    url: str,
    height: int,
    scheme: Literal["light", "dark"] = "light",
    scroll_to: str = "",
) -> None:
    page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_timeout(3000)
    if scroll_to:
        page.locator(scroll_to).first.evaluate("element => element.scrollIntoView()")
    image = Image.open(io.BytesIO(page.screenshot()))
    image.quantize(64).save(FOLDER / f"{name}.png", optimize=True)
    page.close()


if __name__ == "__main__":
    main()
