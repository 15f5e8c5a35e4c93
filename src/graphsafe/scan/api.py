"""Scan: from paths to a report."""

from __future__ import annotations

import datetime
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import graphsafe
from graphsafe.config import Config
from graphsafe.report.model import Confidence, Environment, Limit, Report, Tool
from graphsafe.rulebook import Rulebook, load_rulebook
from graphsafe.scan import statements
from graphsafe.scan.deep import with_room
from graphsafe.scan.engine import Arguments, Engine
from graphsafe.scan.find import python_files
from graphsafe.scan.frame import Frame
from graphsafe.scan.index import FunctionFacts
from graphsafe.scan.lint import Linter
from graphsafe.scan.project import Project
from graphsafe.scan.roots import Paths, capture_sites, roots_of, target_roots
from graphsafe.scan.source import Unreadable


def scan_paths(
    paths: Sequence[Path],
    config: Config,
    *,
    confidence: Confidence = "likely",
    rulebook: Rulebook | None = None,
) -> Report:
    """Lint the hot code of files and folders; the rest of the project is read for what reaches them and what they call.

    Raises RulebookError for a bad pack or an unknown code in `select` or `ignore`.
    """
    rulebook = rulebook or load_rulebook(config.rule_packs)
    rulebook.selected(config.select, config.ignore)
    for codes in config.per_file_ignores.values():
        rulebook.codes(codes, "per-file-ignores")
    given = _given(paths, config)
    project = Project(dict.fromkeys([*_project_files(paths, config), *given]))
    return with_room(lambda: _scan(project, given, config, confidence, rulebook))


def _given(paths: Iterable[Path], config: Config) -> list[Path]:
    """The files to report on, each once, absolute."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(_absolute(file) for file in python_files(path, config.exclude, config.root)))
        else:
            found[_absolute(path)] = None
    return list(found)


def _absolute(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _project_files(paths: Iterable[Path], config: Config) -> list[Path]:
    """The files that may call or be called: the project's, or without one those that stand with the given ones."""
    root = config.root
    if config.source is not None or any(
        (root / name).exists() for name in ("pyproject.toml", "setup.py", "setup.cfg", ".git")
    ):
        return [_absolute(file) for file in python_files(root, config.exclude, root)]
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            continue
        folder = _absolute(path).parent
        if (folder / "__init__.py").exists():
            while (folder.parent / "__init__.py").exists():
                folder = folder.parent
            found += python_files(folder, config.exclude, root)
        else:
            found += sorted(file for file in folder.glob("*.py") if file.is_file())
    return found


def _scan(
    project: Project, given: Sequence[Path], config: Config, confidence: Confidence, rulebook: Rulebook
) -> Report:
    paths = Paths(config)

    def is_cold(ref: str, facts: FunctionFacts) -> bool:
        path = ref.partition("::")[0]
        index = project.index(path)
        return paths.is_cold(path, index.module if index is not None else "", facts)

    engine = Engine(project, rulebook.ops, is_cold, rulebook.libraries)
    wanted = [str(path) for path in given]
    _read_roots(engine, wanted, paths, rulebook, config)
    linter = Linter(engine, rulebook, config, confidence)
    findings = linter.findings(wanted)
    limits = [Limit("not-followed", ref.partition("::")[2], why) for ref, why in engine.failures]
    if not engine.roots:
        limits.append(
            Limit(
                "no-root",
                "no hot code found",
                "no forward of a torch module, capture or marked function; name some with hot-paths or "
                "`# graphsafe: hot`",
            )
        )
    return Report(
        tool=Tool("graphsafe", graphsafe.__version__),
        command="scan",
        created=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=Environment(platform.python_version(), None, None, None, (), rulebook.ops.name, {}),
        target=None,
        verdict=None,
        evidence=None,
        findings=tuple(findings),
        limits=tuple(limits),
        devices=None,
    )


def _read_roots(engine: Engine, wanted: Sequence[str], paths: Paths, rulebook: Rulebook, config: Config) -> None:
    project = engine.project
    tokens = _root_tokens(rulebook.entry_points)
    marked = any(config.hot_paths)
    reported = frozenset(wanted)
    for path in dict.fromkeys([*wanted, *project.paths]):
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            project.problems[path] = Unreadable(error.strerror or "cannot be read")
            continue
        if path not in reported and not marked and not tokens.search(data):
            continue
        project.preload(path, data)
        file = project.index(path)
        if file is None:
            continue
        for ref, receiver, why in roots_of(engine, file, paths, rulebook.entry_points):
            engine.add_root(ref, receiver, why)
        for site in capture_sites(file):
            _guarded(engine, site, lambda site=site: _read_site(engine, site))  # type: ignore[misc]
        _drain(engine)
    target_roots(engine, config, project.paths)
    _drain(engine)


def _root_tokens(entry_points: Iterable[str]) -> re.Pattern[bytes]:
    names = sorted({entry.rpartition(".")[2] for entry in entry_points})
    words = ["forward", "cuda.graph", "make_graphed_callables", "reduce-overhead", "graphsafe:", *names]
    return re.compile("|".join(map(re.escape, words)).encode())


def _drain(engine: Engine) -> None:
    while engine.queue:
        ref, receiver, _ = engine.queue.popleft()
        _guarded(engine, ref, lambda ref=ref, receiver=receiver: engine.read_root(ref, receiver))  # type: ignore[misc]


def _guarded(engine: Engine, ref: str, read: Callable[[], None]) -> None:
    """One root that cannot be followed must not cost the others."""
    try:
        read()
    except RecursionError:
        engine.failures.append((ref, "nested too deeply to be followed"))


def _read_site(engine: Engine, site: str) -> None:
    path, _, name = site.partition("::")
    if name:
        engine.read(site, None, Arguments(), hot=False, guarded=False, depth=1)
        return
    file = engine.project.index(path)
    if file is None:
        return
    from graphsafe.scan.source import parse

    tree = parse(engine.project.source(path).text)
    statements.execute(engine, Frame(file, site, {}, hot=False), tree.body)
