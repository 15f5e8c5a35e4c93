"""Reading a project: what each file makes hot, followed to wherever it leads.

One engine reads everything in a fixed order, since nearly all of what a model runs it shares with others: read for each
file afresh, the common layers of a large project would be read hundreds of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from graphsafe.config import Config
from graphsafe.rulebook import Rulebook
from graphsafe.scan.checks import replay_site
from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.record import ENTRY_POINT, Failure, Place, Record
from graphsafe.scan.domain.values import Instance, Value
from graphsafe.scan.interpreter import statements
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.engine import Engine
from graphsafe.scan.roots.call_budget import Vicinity
from graphsafe.scan.roots.hot_roots import Paths, capture_sites, roots_of, target_roots
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files


@dataclass(frozen=True, slots=True)
class Step:
    """Where readings begin: a root, a function that captures, or what configured targets return."""

    kind: Literal["root", "site", "targets"]
    ref: str
    why: str = ""
    receiver: Value | None = None


TARGETS = ""
"In place of a file's path: what configured targets return."


class Reader:
    def __init__(
        self,
        files: Files,
        config: Config,
        rulebook: Rulebook,
        near: Vicinity | None = None,
    ) -> None:
        self.project = Project(files)
        self._config = config
        self._rulebook = rulebook
        self._paths = Paths(config)
        self._cold: dict[str, bool] = {}
        self._replaying: list[str] = []
        "Files that replay a graph."
        self._late: list[Step] = []
        "What engines call on models: read after the engines, which pass the arguments."
        self._near = near
        self._engine = self.engine()

    def engine(self) -> Engine:
        """One that knows nothing yet."""
        return Engine(self.project, self._rulebook.ops, self._is_cold, self._rulebook.libraries, self._near)

    @property
    def has_unread_ways(self) -> bool:
        """Whether only a few files were in question, and more than that would have had to be read for them."""
        return self._engine.horizon.is_reached()

    @property
    def record(self) -> Record:
        return self._engine.record

    def read(self, path: str) -> None:
        """Follow what a file makes hot; what cannot be followed is among the record's failures."""
        if path == TARGETS:
            self._take(Step("targets", path))
        else:
            _guarded(self._engine, f"{path}::", lambda: self._read_file(path))
        self._follow()

    def finish(self) -> None:
        """Follow what had to wait until every file was read."""
        for path in self._replaying:
            _guarded(self._engine, f"{path}::", lambda path=path: self._note_replays(path))  # type: ignore[misc]
        for step in self._late:
            self._take(step)
        self._late.clear()
        self._follow()

    def _take(self, step: Step) -> None:
        _guarded(self._engine, step.ref, lambda: take(self._engine, step, self._config))

    def _follow(self) -> None:
        engine = self._engine
        while engine.queue:
            _guarded(engine, engine.queue[0][0], lambda: engine.read_alone(*engine.queue.popleft()))

    def _is_cold(self, ref: str, facts: FunctionFacts) -> bool:
        if ref not in self._cold:
            path = ref.partition("::")[0]
            index = self.project.index(path)
            self._cold[ref] = self._paths.is_cold(path, index.module if index is not None else "", facts)
        return self._cold[ref]

    def _read_file(self, path: str) -> None:
        engine = self._engine
        file = engine.project.index(path)
        if file is None:
            return
        if file.replays:
            self._replaying.append(path)
        for ref, receiver, why in roots_of(engine, file, self._paths, self._rulebook.entry_points):
            step = Step("root", ref, why, receiver)
            if why == ENTRY_POINT and type(receiver) is Instance and engine.attributes.is_module(receiver.ref):
                self._late.append(step)
            else:
                self._take(step)
        for site in capture_sites(file):
            self._take(Step("site", site))

    def _note_replays(self, path: str) -> None:
        self.record.replays.update(replays_of(self.project, path))


def take(engine: Engine, step: Step, config: Config) -> None:
    """Raises whatever its code cannot be followed for."""
    if step.kind == "root":
        engine.add_root(step.ref, step.receiver, step.why)
    elif step.kind == "site":
        _read_site(engine, step.ref)
    else:
        target_roots(engine, config, engine.project.paths)


def replays_of(project: Project, path: str) -> dict[Place, Event]:
    """What a file does wrong around the replays of its graphs, hot or not."""
    file = project.index(path)
    if file is None:
        return {}
    # The whole text counts here, but for nothing else: after an edit this is asked again (rereading.py).
    found = replay_site.events(parse(project.files.source(path).text), file.module)
    return {Place(path, function, event.span, event.kind, event.how): event for function, event in found}


def _read_site(engine: Engine, site: str) -> None:
    path, _, name = site.partition("::")
    if name:
        engine.read(Call(site, depth=1))
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
