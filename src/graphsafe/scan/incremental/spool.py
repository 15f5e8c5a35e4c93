"""Text that is put aside on disk until a scan is over: tens of megabytes that it need not hold in memory."""

from __future__ import annotations

import io
import tempfile
from contextlib import suppress
from typing import IO


class Spool:
    def __init__(self) -> None:
        self._file: IO[bytes] = io.BytesIO()
        with suppress(OSError):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed, and gone, with the spool
        self._end = 0

    def put(self, text: str) -> tuple[int, int]:
        """Where it is kept. Raises OSError where the disk is full."""
        data = text.encode("utf-8", "surrogatepass")
        self._file.write(data)
        place = self._end, len(data)
        self._end += len(data)
        return place

    def get(self, place: tuple[int, int]) -> str:
        """Raises OSError."""
        self._file.seek(place[0])
        return self._file.read(place[1]).decode("utf-8", "surrogatepass")
