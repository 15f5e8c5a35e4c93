"""The unit of work: what one file makes hot, followed to wherever it leads, by a reader that starts afresh.

Nothing passes from one unit to another but the indexes of files, so that units may be read in any order and by any
process, and a unit's record holds for as long as the files that it touched stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphsafe.config import Config
from graphsafe.rulebook import Rulebook
from graphsafe.scan import statements
from graphsafe.scan.engine import Arguments, Engine
from graphsafe.scan.files import Files
from graphsafe.scan.frame import Frame
from graphsafe.scan.index import FunctionFacts
from graphsafe.scan.project import Project
from graphsafe.scan.record import Failure, Record
from graphsafe.scan.roots import Paths, capture_sites, roots_of, target_roots
from graphsafe.scan.source import parse

TARGETS = ""
"The path of the unit that reads what configured targets return."


@dataclass(frozen=True, slots=True)
class Unit:
    path: str
    record: Record
    touched: frozenset[str]
    "Files that the record depends on."


class Reader:
    """Reads units; `files` is shared by all of them."""

    def __init__(self, files: Files, config: Config, rulebook: Rulebook) -> None:
        self._files = files
        self._config = config
        self._rulebook = rulebook
        self._paths = Paths(config)

    def read(self, path: str) -> Unit:
        project = Project(self._files)

        def is_cold(ref: str, facts: FunctionFacts) -> bool:
            where = ref.partition("::")[0]
            index = project.index(where)
            return self._paths.is_cold(where, index.module if index is not None else "", facts)

        engine = Engine(project, self._rulebook.ops, is_cold, self._rulebook.libraries)
        if path == TARGETS:
            _guarded(engine, "", lambda: target_roots(engine, self._config, project.paths))
        else:
            _guarded(engine, f"{path}::", lambda: self._read_file(engine, path))
        while engine.queue:
            ref, receiver, _ = engine.queue.popleft()
            _guarded(engine, ref, lambda ref=ref, receiver=receiver: engine.read_root(ref, receiver))  # type: ignore[misc]
        return Unit(path, engine.record, frozenset(project.touched))

    def _read_file(self, engine: Engine, path: str) -> None:
        file = engine.project.index(path)
        if file is None:
            return
        for ref, receiver, why in roots_of(engine, file, self._paths, self._rulebook.entry_points):
            engine.add_root(ref, receiver, why)
        for site in capture_sites(file):
            _guarded(engine, site, lambda site=site: _read_site(engine, site))  # type: ignore[misc]


def _read_site(engine: Engine, site: str) -> None:
    path, _, name = site.partition("::")
    if name:
        engine.read(site, None, Arguments(), hot=False, guarded=False, depth=1)
        return
    file = engine.project.index(path)
    if file is not None:
        tree = parse(engine.project.source(path).text)
        statements.execute(engine, Frame(file, site, {}, hot=False), tree.body)


def _guarded(engine: Engine, ref: str, read: Callable[[], None]) -> None:
    """One root that cannot be followed must not cost the others."""
    try:
        read()
    except (RecursionError, MemoryError):
        engine.fail(Failure("not-followed", ref, "nested too deeply to be followed"))
    except Exception as error:
        engine.fail(Failure("internal-error", ref, f"{type(error).__name__}: {error}"))
