"""The project of a module of tests, for those that edit it and scan again."""

from __future__ import annotations

from pathlib import Path

import pytest

from .editing import Again, scans_again, write_project


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The module's `FILES`, written out."""
    return write_project(tmp_path, request.module.FILES)


@pytest.fixture
def again(root: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """Scans that project with a cache, which holds a first scan of it."""
    scan = scans_again(root, monkeypatch, "possible")
    scan()
    return scan
