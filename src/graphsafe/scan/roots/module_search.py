"""Searches for modules in files that are not read. Such files exist if the report is about only a few files of a
project."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from graphsafe.report.model import Region
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.roots.assumed_roots import WAY, assumed_roots_of
from graphsafe.scan.roots.broken_files import missing_import
from graphsafe.scan.roots.hot_roots import FORWARD, HotnessRules, roots_of
from graphsafe.scan.roots.loop_roots import LoopRoots


def has_module(
    engine: Engine, read: Collection[str], paths: HotnessRules, loops: LoopRoots, entry_points: Mapping[str, Region]
) -> bool:
    """Return whether a file of the project that is not among the `read` files defines a module with a `forward`."""
    files, known = engine.project.files, frozenset(read)
    for path in files.names:
        data = files.data(path) or b""
        if path in known or b"def forward" not in data or missing_import(path, files, data):
            continue
        file = files.index(path)
        if file is None:
            continue
        if any(
            why == FORWARD and not loops.is_pipeline(file, ref)
            for ref, _, why in roots_of(engine, file, paths, entry_points)
        ):
            return True
        if any(why == WAY for _, _, why in assumed_roots_of(engine, file, paths, with_public=False)):
            return True
    return False
