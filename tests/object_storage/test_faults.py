"""Faults of object storage: what is written is written once, and an error names its cause."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clerk.error_causes import classify
from clerk.errors import (
    BucketMissing,
    Cause,
    HostError,
    StorageConflict,
    StorageRefused,
    StorageUnreachable,
    UploadDamaged,
)
from clerk.object_storage.bucket import Bucket
from clerk.object_storage.url import parse_bucket_url
from tests.object_storage.fault_proxy import Fault, FaultProxy
from tests.s3 import CREDENTIALS

Behind = Callable[..., Bucket]


def _is_put(method: str, path: str) -> bool:
    return method == "PUT"


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.NO_ANSWER, Fault.LOST_REPLY])
def test_a_write_succeeds_after_a_fault(bucket_behind: Behind, proxy: FaultProxy, fault: Fault) -> None:
    bucket = bucket_behind()
    proxy.applies_to, proxy.faults = _is_put, [fault]
    assert bucket.create("a/1.txt", b"text") is not None
    assert bucket.read("a/1.txt")[1] == b"text"
    assert proxy.faults == []


def test_a_conditional_replacement_whose_reply_is_lost_counts_as_done(bucket_behind: Behind, proxy: FaultProxy) -> None:
    bucket = bucket_behind()
    before = bucket.write("pointer", b"one")
    proxy.applies_to, proxy.faults = _is_put, [Fault.LOST_REPLY]
    bucket.replace("pointer", b"two", before)
    assert bucket.read("pointer")[1] == b"two"
    with pytest.raises(StorageConflict):
        bucket.replace("pointer", b"three", before)
    assert bucket.read("pointer")[1] == b"two"


def test_an_object_with_other_content_is_never_overwritten_by_create(bucket_behind: Behind) -> None:
    bucket = bucket_behind()
    assert bucket.create("a", b"one") is not None
    assert bucket.create("a", b"one") is not None, "our own object"
    assert bucket.create("a", b"two") is None
    assert bucket.read("a")[1] == b"one"


def test_a_truncated_upload_is_detected_and_deleted(bucket_behind: Behind, proxy: FaultProxy) -> None:
    bucket = bucket_behind()
    proxy.applies_to, proxy.faults = _is_put, [Fault.TRUNCATED]
    with pytest.raises(UploadDamaged, match="5 bytes after an upload of 10"):
        bucket.create("a", b"0123456789")
    with pytest.raises(FileNotFoundError):
        bucket.info("a")


def test_a_truncated_download_is_never_a_file(bucket_behind: Behind, proxy: FaultProxy) -> None:
    bucket = bucket_behind()
    bucket.create("a", b"0123456789" * 1000)
    proxy.always = Fault.CUT_DOWNLOAD
    with pytest.raises(StorageUnreachable):
        bucket.download("a", io.BytesIO())


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.SLOW_DOWN, StorageUnreachable),
        (Fault.NO_ANSWER, StorageUnreachable),
        (Fault.WRONG_CREDENTIALS, StorageRefused),
        (Fault.NO_BUCKET, BucketMissing),
    ],
)
def test_a_lasting_fault_is_the_machines_not_the_documents(
    bucket_behind: Behind, proxy: FaultProxy, fault: Fault, error: type[HostError]
) -> None:
    bucket = bucket_behind(timeout=0.2)
    proxy.always = fault
    for request in (
        lambda: bucket.read("a"),
        lambda: bucket.create("a", b"text"),
        lambda: list(bucket.list_objects("")),
    ):
        with pytest.raises(error) as raised:
            request()
        assert classify(raised.value) is error
        assert (error.cause, error.retryable) == (Cause.HOST, True)
        assert not any(secret in str(raised.value) for secret in CREDENTIALS.values())
    assert isinstance(bucket.probe(), error)
    proxy.always = None
    assert bucket.probe() is None


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("refusing", "Connection refused"),
        ("closing", "Connection reset by peer"),
        ("silent", "no answer in time"),
        ("unknown", "failed to lookup address information: "),
        ("untrusted", "InvalidCertificate("),
    ],
)
def test_an_error_has_the_innermost_cause_and_the_address_once(
    kind: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library says "error sending request" for all of them."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        host = stack.enter_context(_server(kind, tmp_path))
        scheme = "https" if kind == "untrusted" else "http"
        bucket = Bucket(parse_bucket_url(f"s3://papers/all?endpoint={scheme}://{host}&timeout=0.3"))
        requests: dict[str, Callable[[], object]] = {
            "town/a.pdf": lambda: bucket.read("town/a.pdf"),
            "": lambda: list(bucket.list_objects("")),
        }
        for key, request in requests.items():
            with pytest.raises(StorageUnreachable) as raised:
                request()
            text = str(raised.value)
            assert text.startswith(f"s3://papers/all/{key}: {cause}")
            assert text.endswith(f" ({scheme}://{host})")
            assert text.count(host) == 1


@contextlib.contextmanager
def _server(kind: str, folder: Path) -> Iterator[str]:
    """The address of a server with which no request succeeds."""
    if kind == "unknown":
        yield "nowhere.invalid"
        return
    context = _untrusted_context(folder) if kind == "untrusted" else None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        if kind == "silent":
            yield host
            return

        def close_each() -> None:
            with contextlib.suppress(OSError):  # the listener was shut down
                while True:
                    with listener.accept()[0] as client, contextlib.suppress(OSError):
                        if context is not None:
                            context.wrap_socket(client, server_side=True).close()
                        else:
                            client.recv(1)

        if kind == "refusing":
            listener.close()
            yield host
            return
        thread = threading.Thread(target=close_each)
        thread.start()
        try:
            yield host
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _untrusted_context(folder: Path) -> ssl.SSLContext:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_in_a_missing_bucket_no_object_counts_as_missing(bucket_behind: Behind) -> None:
    bucket = bucket_behind("no-such-bucket")
    with pytest.raises(BucketMissing, match="no-such-bucket does not exist"):
        bucket.info("a")
    with pytest.raises(BucketMissing):
        bucket.create("a", b"text")
