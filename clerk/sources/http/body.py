"""Response bodies: streaming decompression with a limit, so that a decompression bomb cannot fill the disk."""

from __future__ import annotations

import hashlib
import zlib
from typing import IO

from clerk.errors import DownloadFailed, DownloadRefused, PdfTooLarge

_CHUNK_SIZE = 1 << 18
_HEAD_SIZE = 1024


class Sink:
    """Writes a body to a file and computes its hash, size and first bytes. `restart` empties it for another attempt."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file = file
        self.limit = limit
        self.restart()

    def restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.size = 0
        self.head = b""
        self._hash = hashlib.sha256()

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self.limit:
            raise PdfTooLarge(f"content is larger than {self.limit:,} bytes")
        if len(self.head) < _HEAD_SIZE:
            self.head += chunk[: _HEAD_SIZE - len(self.head)]
        self._hash.update(chunk)
        self.file.write(chunk)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Decoder:
    """Decodes one Content-Encoding in chunks of limited size."""

    def __init__(self, encoding: str, sink: Sink) -> None:
        self.sink = sink
        self.encoding = encoding.strip().lower()
        self.received = 0
        self._decompressor: zlib._Decompress | None = None
        if self.encoding in ("gzip", "x-gzip"):
            self._decompressor = zlib.decompressobj(wbits=31)
        elif self.encoding == "deflate":
            self._decompressor = zlib.decompressobj()
        elif self.encoding not in ("", "identity"):
            raise DownloadRefused(f"the response has Content-Encoding {encoding[:50]!r}, which was not requested")

    def write(self, chunk: bytes) -> None:
        self.received += len(chunk)
        if self.received > self.sink.limit:
            raise PdfTooLarge(f"response is larger than {self.sink.limit:,} bytes")
        if self._decompressor is None:
            self.sink.write(chunk)
            return
        try:
            while chunk and not self._decompressor.eof:
                self.sink.write(self._decompressor.decompress(chunk, _CHUNK_SIZE))
                chunk = self._decompressor.unconsumed_tail
        except zlib.error as error:
            raise DownloadFailed(f"the response is not valid {self.encoding} ({error})") from error

    def finish(self) -> None:
        if self._decompressor is not None and self.received and not self._decompressor.eof:
            raise DownloadFailed(f"the {self.encoding} response is truncated")
