"""Scans paths and makes the report."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType

from graphsafe.config import Config, is_project_root
from graphsafe.environment_variables import recorded
from graphsafe.files import from_here
from graphsafe.report.model import Confidence, Environment, Limit, Reach, Report, Tool
from graphsafe.report.text import count
from graphsafe.rulebook.book import Rulebook, rulebook_of
from graphsafe.scan.cache.scan_cache import ScanCache
from graphsafe.scan.deep_stack import run_deep
from graphsafe.scan.driver import Driver
from graphsafe.scan.linting.hot_lines import Lines, hot_statements
from graphsafe.scan.linting.hotness import Hotness, definitions, hotness_of
from graphsafe.scan.linting.lint import Linter
from graphsafe.scan.linting.selection import Selection
from graphsafe.scan.reading_pool import read_shared
from graphsafe.scan.roots.candidate_files import Candidates, find_candidates, root_patterns
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.sources.documents import MAX_DOCUMENTS, Documents
from graphsafe.scan.sources.find import DOCUMENTS, OUTSIDE, Complaint, files_below
from graphsafe.scan.symbols.index_pool import MAX_READERS, build_indexes, process_count
from graphsafe.scan.symbols.project_files import Files, outermost_package
from graphsafe.scan.unmatched_settings import stray_marks, unmatched_settings
from graphsafe.version import __version__

Progress = Callable[[int, int], None]

_PYTHON = ("", ".py", ".pyi", ".pyw")
"Suffixes of Python files; a script may have no suffix."


def scan_paths(
    paths: Sequence[Path],
    config: Config,
    *,
    confidence: Confidence = "likely",
    rulebook: Rulebook | None = None,
    cache: Path | None = None,
    jobs: int | None = 1,
    progress: Progress | None = None,
    complain: Callable[[str], None] = lambda line: None,
    buffers: Mapping[Path, bytes] = MappingProxyType({}),
    hot: dict[str, set[Lines]] | None = None,
) -> Report:
    """Lint the hot code of the given files and folders. The rest of the project is read too, to find the calls into and
    out of these files.

    `cache` is the folder for stored results; with None, no results are stored. `jobs` is the number of processes that
    read files; None means one per core if there are enough files. The report does not depend on `jobs`. `progress` is
    called with the number of files read so far and the number of all files. `complain` is called with one line if the
    cache cannot be used. The scan then takes longer, but its report is the same. `buffers` maps absolute paths to
    contents that an editor has not saved. These files need not exist on disk, and a scan with buffers stores no
    results. If `hot` is given, the scan adds the statements of hot code to it: the lines of each statement, by the
    absolute path of the file. Raises RulebookError for a bad pack or an unknown code in `select` or `ignore`.
    """
    rulebook = rulebook or rulebook_of(config)
    Selection.of(config, rulebook)  # an unknown code fails before any file is read
    left_out: dict[Limit, None] = {}
    files, given = _files(paths, config, left_out, buffers)
    if files.names and len(given) == len(files.names):
        left_out.update(dict.fromkeys(unmatched_settings(config, files)))
    wanted = [str(path) for path in given]
    kept = ScanCache(None if buffers else cache, files, wanted, config, confidence, rulebook, complain)
    known = kept.report() if hot is None else None  # the cache does not contain the hot statements
    if known is not None:
        here = replace(known.environment, settings=recorded(config.settings))
        return replace(known, created=_now(), environment=here, limits=(*known.limits, *left_out))
    # This step parses files too, so it needs the same recursion limit as the rest of the scan.
    candidates = run_deep(lambda: find_candidates(files, wanted, config, root_patterns(config, rulebook)))
    settled = kept.indexes().union(candidates.paths)
    _index(files, candidates, jobs, buffers)
    others = [path for path in wanted if path not in settled]
    driver = Driver(files, config, rulebook, candidates)
    read = _reading(driver, candidates, jobs, progress)

    def scan() -> Report:
        # All work runs in one thread, because a second thread would not reuse the memory that the first one freed.
        read()
        project, record, unread = driver.project, driver.record, driver.has_unread_module
        linter = Linter(project, record, rulebook, config, confidence, candidates, unread)
        here = Environment(
            platform.python_version(), None, None, None, (), rulebook.ops.name, recorded(config.settings)
        )
        return _report(driver, linter, candidates, others, wanted, here)

    report = run_deep(scan)
    if hot is not None:
        hot.update(hot_statements(driver.project, driver.record, frozenset(wanted)))
    kept.keep(report, others)
    return replace(report, limits=(*report.limits, *left_out))


def explain_path(
    name: str, paths: Sequence[Path], config: Config, jobs: int | None = 1, progress: Progress | None = None
) -> list[Hotness]:
    """Return why the functions that `name` refers to are hot, or not hot, in the project of `paths`.

    All roots of the project are considered, even if `paths` contains only a few files. Raises RequestError.
    """
    rulebook = rulebook_of(config)
    files, given = _files(paths, config, {})
    wanted = definitions(files, config.root, name)
    candidates = find_candidates(files, list(files.names), config, root_patterns(config, rulebook))
    _index(files, candidates, jobs, buffers={})
    driver = Driver(files, config, rulebook, candidates)
    run_deep(_reading(driver, candidates, jobs, progress))
    return hotness_of(wanted, files, driver.record, HotnessRules(config), frozenset(map(str, given)))


def _index(files: Files, candidates: Candidates, jobs: int | None, buffers: Mapping[Path, bytes]) -> None:
    """Index the candidates in several processes if there are many."""
    known = (path for path in candidates.paths if path in files.names and path not in files.indexes)
    missing = {path: files.names[path] for path in known if Path(path) not in buffers}
    files.indexes.update(build_indexes(missing, process_count(jobs, len(missing))))


def _files(
    paths: Sequence[Path],
    config: Config,
    left_out: dict[Limit, None],
    buffers: Mapping[Path, bytes] = MappingProxyType({}),
) -> tuple[Files, list[Path]]:
    """Return the files to read, and the files to report on. A limit is recorded for each file that is left out."""

    def complain(kind: str, what: str, why: str) -> None:
        left_out[Limit(kind, from_here(what), why)] = None

    def can_be_named(path: Path) -> bool:
        if "::" in str(path):
            complain("unread-file", str(path), "it is not read, because `::` would end its path in a report")
            return False
        return True

    project = list(filter(can_be_named, _project_files(paths, config, complain))) if paths else []
    given = list(filter(can_be_named, _given(paths, config, project, complain)))
    for path in _absolute(paths):  # a link that the user names is followed, so no limit is recorded for it
        left_out.pop(Limit("outside-link", from_here(str(path)), OUTSIDE), None)
    contents = {str(path): data for path, data in buffers.items()}
    return Files(sorted({*project, *given}), contents, _documents(paths, config)), sorted(given)


def _given(paths: Iterable[Path], config: Config, project: Iterable[Path], complain: Complaint) -> list[Path]:
    """Return the absolute paths of the files to report on, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir() and _is_project(config) and path.resolve() == config.root.resolve():
            found.update(dict.fromkeys(project))
        elif path.is_dir():
            found.update(dict.fromkeys(_absolute(files_below(path.resolve(), config.exclude, config.root, complain))))
        else:
            found.update(dict.fromkeys(_absolute([path])))
            if path.suffix not in _PYTHON:
                complain("not-python", str(path), f"read as Python, although its name ends in {path.suffix}")
    return list(found)


def _absolute(paths: Iterable[Path]) -> Iterator[Path]:
    """Make paths absolute. Links to folders are followed, but a file that is a link keeps its name."""
    folders: dict[Path, Path] = {}
    for path in paths:
        folder = path.parent
        if folder not in folders:
            folders[folder] = folder.resolve()
        yield folders[folder] / path.name


def _project_files(paths: Iterable[Path], config: Config, complain: Complaint) -> list[Path]:
    """Return the files whose code may call the given files or be called by them. These are the files of the project.
    Without a project, they are the files in the same packages or folders."""
    root = config.root
    if _is_project(config):
        return list(_absolute(files_below(root, config.exclude, root, complain)))
    found: list[Path] = []
    known: dict[Path, Path | None] = {}
    for path in paths:
        if path.is_dir():
            continue
        folder = path.parent.resolve()
        package = outermost_package(folder, known)
        if package is not None:
            found += files_below(package, config.exclude, root, complain)
        else:
            found += sorted(file for file in folder.glob("*.py") if os.path.isfile(file))
    return found


def _documents(paths: Sequence[Path], config: Config) -> Documents | None:
    """Return the documents of the project or, without a project, of the given folders. Return None if there are none,
    or too many."""
    folders = [config.root] if _is_project(config) else [path for path in paths if path.is_dir()]
    every = chain.from_iterable(files_below(folder.resolve(), config.exclude, suffixes=DOCUMENTS) for folder in folders)
    found = [*islice(every, MAX_DOCUMENTS + 1)]
    if len(found) > MAX_DOCUMENTS:
        return None
    small = Documents(map(str, _absolute(found)))
    return small if small.paths else None


def _is_project(config: Config) -> bool:
    return config.source is not None or is_project_root(config.root)


def _reading(driver: Driver, candidates: Candidates, jobs: int | None, progress: Progress | None) -> Callable[[], None]:
    """Read the candidates in several processes if there are many. Return the work that remains for this process."""
    paths, done = candidates.paths, 0

    def count_one() -> None:
        nonlocal done
        if progress is not None:
            progress(done, len(paths))
        done += 1

    def read_alone() -> None:
        for path in paths:
            count_one()
            driver.read(driver.look_into(path))
        driver.finish()

    # If the scan is about only a few files, the number of functions to read is limited. One process then reads all of
    # them, in a fixed order.
    count = process_count(jobs, len(paths)) if candidates.scope is None else 1
    if jobs is None:
        count = min(count, MAX_READERS)
    if read_shared(driver, paths, count, count_one):
        return lambda: None
    done = 0
    return read_alone


def _report(
    driver: Driver,
    linter: Linter,
    candidates: Candidates,
    others: Iterable[str],
    wanted: Sequence[str],
    here: Environment,
) -> Report:
    """Make the report. `others` are wanted files that cannot contain a root. For these, the scan only checks that they
    are legal Python."""
    for path in others:
        driver.project.files.check(path)
    return Report(
        tool=Tool("graphsafe", __version__),
        command="scan",
        created=_now(),
        environment=here,
        target=None,
        verdict=None,
        evidence=None,
        findings=tuple(linter.findings(wanted, candidates.paths)),
        limits=tuple(_limits(driver, linter, candidates, wanted)),
        devices=None,
        reach=Reach(len(driver.record.roots), linter.hidden()),
    )


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _limits(driver: Driver, linter: Linter, candidates: Candidates, wanted: Sequence[str]) -> Iterator[Limit]:
    record = driver.record
    for failure in record.failures:
        path, _, function = failure.ref.partition("::")
        where = f"{linter.display(path)}::{function}".rstrip(":") if path else "the configured targets"
        yield Limit(failure.kind, where, failure.why)
    yield from linter.ignored_problems(wanted)
    for path in wanted:
        yield from stray_marks(driver.project.files, path, linter.display(path))
    for module, paths in sorted(candidates.broken.items()):
        named = [linter.display(path) for path in sorted({*paths}.intersection(wanted))]
        if named:
            who = named[0] + (f" and {count(len(named) - 1, 'more file')}" if len(named) > 1 else "")
            yield Limit("missing-import", module, f"{who} cannot be imported without this module; no step begins there")
    if candidates.scope is not None:
        yield Limit(
            "nearest-roots",
            "only some files of a large project were given",
            "they were read only from the nearest roots; a scan of the whole project follows all calls that reach them",
        )
    if driver.is_budget_spent:
        yield Limit(
            "unread-ways",
            "only some files of a large project were given",
            "too much code reaches them, so only part of it was read; a scan of the whole project reads all of it",
        )
    if not wanted:
        yield Limit(
            "no-root",
            "no Python files found",
            "there are none, or .gitignore or `exclude` excludes them all; name an ignored folder to read it",
        )
    elif not record.roots:
        yield Limit(
            "no-root",
            "no hot code found",
            "there is no `forward` of a torch module, no capture and no marked function; mark hot functions with "
            "`# graphsafe: hot`, or name them under hot-paths",
        )
