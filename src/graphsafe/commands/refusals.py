"""Reports of requests to `graphsafe capture` that are refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graphsafe.commands.options import Output, put_outputs
from graphsafe.errors import RequestError


@contextmanager
def refusals_reported(target: str | None, form: str | None, files: Sequence[Output]) -> Iterator[None]:
    """Write a report of a refused request, with the reason: no older report must stay in its place. `target` is None
    for `--all`."""
    try:
        yield
    except RequestError as error:
        from graphsafe.capture.api import refused
        from graphsafe.capture.request import CaptureRequest
        from graphsafe.config import Config

        report = refused(CaptureRequest(target or "--all", Config(root=Path.cwd())), str(error))
        put_outputs([report] if target is None else report, form, files, "json", dict)
        raise
