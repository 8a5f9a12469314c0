"""An answer's body on its way in: decompressed bit by bit, so that a small one cannot become huge unseen."""

from __future__ import annotations

import hashlib
import zlib
from typing import IO

from clerk.errors import DownloadFailed, DownloadRefused, PdfTooLarge

_PIECE = 1 << 18
_HEAD = 1024


class Sink:
    """Where a body goes: a file, its hash, its size, its first bytes. It can be started again for another attempt."""

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

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self.limit:
            raise PdfTooLarge(f"more than {self.limit:,} bytes of content")
        if len(self.head) < _HEAD:
            self.head += piece[: _HEAD - len(self.head)]
        self._hash.update(piece)
        self.file.write(piece)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Decoder:
    """Undoes one Content-Encoding, in pieces of bounded size."""

    def __init__(self, encoding: str, sink: Sink) -> None:
        self.sink = sink
        self.encoding = encoding.strip().lower()
        self.received = 0
        self._unzip: zlib._Decompress | None = None
        if self.encoding in ("gzip", "x-gzip"):
            self._unzip = zlib.decompressobj(wbits=31)
        elif self.encoding == "deflate":
            self._unzip = zlib.decompressobj()
        elif self.encoding not in ("", "identity"):
            raise DownloadRefused(f"the answer is encoded as {encoding[:50]!r}, which was not asked for")

    def write(self, piece: bytes) -> None:
        self.received += len(piece)
        if self.received > self.sink.limit:
            raise PdfTooLarge(f"more than {self.sink.limit:,} bytes received")
        if self._unzip is None:
            self.sink.write(piece)
            return
        try:
            while piece and not self._unzip.eof:
                self.sink.write(self._unzip.decompress(piece, _PIECE))
                piece = self._unzip.unconsumed_tail
        except zlib.error as error:
            raise DownloadFailed(f"the answer is not the {self.encoding} it says it is ({error})") from error

    def finish(self) -> None:
        if self._unzip is not None and self.received and not self._unzip.eof:
            raise DownloadFailed(f"the {self.encoding} answer ends in the middle")
