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

from PIL import Image
from playwright.sync_api import sync_playwright

from clerk.db.connection import connect_to
from tests.browser.conftest import BROWSERS, CHROMIUM_ARGS, Installation

FOLDER = Path(__file__).parents[2] / "docs" / "images"
CLERK = (sys.executable, "-m", "clerk")
WIDTH = 1200
_DOCUMENT = "select id from content_items where subdomain = 'riverton' and date = '2024-05-28'"
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
            (document,) = connection.execute(_DOCUMENT).fetchone() or (None,)
        worker = subprocess.Popen([*CLERK, "worker"], env=installation.environment)
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_ARGS)
        try:
            while subprocess.run([*CLERK, "worker", "--check"], env=installation.environment).returncode:
                time.sleep(1)
            with installation.dashboard() as address:
                for name, path, height, anchor in (
                    ("overview", "/", 1000, ""),
                    ("site", "/sites/brokenbow", 900, ""),
                    ("failures", "/failures", 720, ""),
                    ("document", f"/sites/riverton/documents/{document}?page=2&q=velodrome", 980, "text=Pages"),
                    ("search", "/search?q=bike", 640, ""),
                ):
                    page = browser.new_page(
                        viewport={"width": WIDTH, "height": height},
                        color_scheme="dark" if name == "search" else "light",
                    )
                    page.goto(address + path)
                    page.wait_for_timeout(3000)
                    if anchor:
                        page.locator(anchor).first.evaluate("element => element.scrollIntoView()")
                    image = Image.open(io.BytesIO(page.screenshot()))
                    image.quantize(64).save(FOLDER / f"{name}.png", optimize=True)
                    page.close()
        finally:
            browser.close()
            worker.terminate()
            worker.wait()
            subprocess.run([*CLERK, "db", "stop", "--force"], env=environment, check=True)


if __name__ == "__main__":
    main()
