"""The request of a scan, and its reports, one for each configuration.

A folder with its own configuration is its own project. So the nearest configuration always applies to a file, no matter
which paths are scanned.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphsafe.config import Config, config_over, has_own_config
from graphsafe.errors import RequestError
from graphsafe.files import from_here, saved, with_real_folder

if TYPE_CHECKING:
    from graphsafe.baseline.matching import Scope
    from graphsafe.git.changed_lines import Changes
    from graphsafe.report.model import Confidence, Finding, Level, Region, Report
    from graphsafe.report.source import Lines
    from graphsafe.rulebook.book import Rulebook

Buffers = Mapping[Path, bytes]
"Absolute path -> unsaved content of the file in an editor."


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of the command line. An option that was not given is empty or None."""

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    fail_level: Level | None = None
    region: Region | None = None

    def over(self, config: Config, rulebook: Rulebook) -> Config:
        """Return the configuration, changed by these options.

        `select` replaces the selected and ignored codes, and the other options add to the configuration. Raises
        RulebookError for an unknown code.
        """
        config = replace(
            config,
            exclude=config.exclude + self.exclude,
            fail_level=self.fail_level or config.fail_level,
            region=self.region or config.region,
        )
        if self.select or self.extend_select:
            chosen = rulebook.codes(self.select, "--select")
            chosen = chosen or rulebook.selected(config.select, config.ignore, config.place)
            chosen |= rulebook.codes(self.extend_select, "--extend-select")
            config = replace(config, select=tuple(sorted(chosen)), ignore=())
        rulebook.codes(self.ignore, "--ignore")
        return replace(config, ignore=config.ignore + self.ignore)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The options of `graphsafe scan`."""

    paths: tuple[Path, ...]
    asked: Asked = field(default_factory=Asked)
    confidence: Confidence = "likely"
    baseline: Path | None = None
    "A baseline to use instead of the one beside the configuration."
    diff: str | None = None
    "A git revision. Only findings on lines that have changed since then are reported."
    use_cache: bool = True
    cache: Path | None = None
    "The folder of the cache. By default, it is in the project."
    jobs: int | None = None
    with_edits: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The paths of a request to which one configuration applies, and the settings of this configuration."""

    paths: tuple[Path, ...]
    others: tuple[Path, ...]
    "Folders below the paths that have their own configurations."
    configured: Config
    config: Config
    "The configuration, changed by the request's options."
    rulebook: Rulebook
    baseline: Path
    cache: Path | None

    def failing(self, report: Report) -> list[Finding]:
        from graphsafe.report.model import failing

        return failing(report, self.config.fail_level)

    def holds(self, finding: Finding) -> bool:
        path = os.path.abspath(finding.location.path)
        return not any(path.startswith(os.path.join(other, "")) for other in self.others)


def parts_of(request: ScanRequest) -> list[Part]:
    """Return the parts of a request.

    Raises RequestError for an invalid configuration, for unknown rules, and for a baseline that is given for several
    configurations.
    """
    from graphsafe.baseline.baseline_file import NAME
    from graphsafe.rulebook.book import rulebook_of
    from graphsafe.scan.cache.folder import cache_folder

    by_root: dict[Path, tuple[Config, dict[Path, None], dict[Path, None]]] = {}

    def add(path: Path) -> None:
        config = config_over(path)
        _, paths, others = by_root.setdefault(config.root, (config, {}, {}))
        paths[path] = None
        if path.is_dir():
            for folder in _own_projects(path, config):
                others[folder] = None
                add(folder)

    for path in request.paths:
        add(path)
    if not request.paths:
        config = config_over(Path())
        by_root[config.root] = (config, {}, {})
    if request.baseline is not None and len(by_root) > 1:
        roots = ", ".join(from_here(str(root)) for root in sorted(by_root))
        raise RequestError(
            f"scan --baseline: the paths belong to several projects ({roots}); give the paths of one project, or omit "
            "--baseline, so that each project uses its own"
        )
    parts = []
    for configured, paths, others in by_root.values():
        rulebook = rulebook_of(configured)
        config = request.asked.over(configured, rulebook)
        cache = (request.cache or cache_folder(config)) if request.use_cache else None
        baseline = request.baseline or config.root / NAME
        parts.append(Part(tuple(paths), tuple(others), configured, config, rulebook, baseline, cache))
    return parts


def _own_projects(top: Path, config: Config) -> Iterator[Path]:
    """Yield the folders below `top` that have their own configuration. Folders inside such a folder are left out."""
    from graphsafe.scan.sources.find import ALWAYS_SKIPPED, files_below

    top = top.resolve()
    found = []
    waiting = [str(top)]  # not `os.walk`, which is recursive
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        names = {name for name, _ in inside}
        may_have = folder != str(top) and not names.isdisjoint(("graphsafe.toml", "pyproject.toml"))
        if may_have and has_own_config(Path(folder)):
            found.append(Path(folder))
        else:
            waiting += (
                os.path.join(folder, name) for name, is_folder in inside if is_folder and name not in ALWAYS_SKIPPED
            )
    if found:
        read = [str(path) for path in files_below(top, config.exclude, config.root)]
        yield from (
            folder for folder in sorted(found) if any(path.startswith(os.path.join(folder, "")) for path in read)
        )


def run_scan(request: ScanRequest, *, buffers: Buffers = MappingProxyType({})) -> list[tuple[Part, Report]]:
    """Return the report of each configuration that applies to some of the paths. Raises RequestError."""
    changes = changes_of(request)
    return [(part, run_part(part, request, buffers=buffers, changes=changes)) for part in parts_of(request)]


def run_part(
    part: Part,
    request: ScanRequest,
    *,
    buffers: Buffers = MappingProxyType({}),
    changes: Changes | None = None,
    is_known: bool = True,
    hot: dict[str, set[tuple[int, int]]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    complain: Callable[[str], None] = lambda line: None,
) -> Report:
    """Scan the part of one configuration. Raises RequestError.

    With `is_known`, findings in the baseline are marked as known. The statements of hot code are added to `hot`, by the
    absolute paths of their files.
    """
    from graphsafe.git.changed_lines import only_changed
    from graphsafe.scan.api import scan_paths

    report = scan_paths(
        part.paths,
        part.config,
        confidence=request.confidence,
        rulebook=part.rulebook,
        cache=part.cache,
        jobs=request.jobs,
        progress=progress,
        complain=complain,
        buffers=buffers,
        hot=hot,
    )
    if part.others:
        report = replace(report, findings=tuple(filter(part.holds, report.findings)))
    if is_known:
        from graphsafe.baseline import api as known

        must, source = request.baseline is not None, source_over(buffers)
        within = scope(part, request)
        report = known.apply(report, part.baseline, within, part.rulebook, must_exist=must, source=source)
    if changes is not None:
        from graphsafe.scan.sources.source import MAX_BYTES

        held = {os.path.abspath(path): data for path, data in buffers.items()}
        report = only_changed(report, changes, lambda path: held[path] if path in held else saved(path, MAX_BYTES))
    if request.with_edits:
        from graphsafe.fixes.proposals import with_edits

        report = with_edits(report, part.rulebook.rules, source_over(buffers))
    return report


def scope(part: Part, request: ScanRequest) -> Scope:
    from graphsafe.baseline import api as known

    return known.scope(part.paths, part.config, part.rulebook, request.confidence)


def changes_of(request: ScanRequest) -> Changes | None:
    """Return the changes since the revision that the request names, or None if it names none. Raises RequestError for
    an unknown revision."""
    from graphsafe.git.changed_lines import changes_since

    return changes_since(request.diff, request.paths or (Path(),)) if request.diff is not None else None


def joined(reports: Sequence[Report]) -> Report:
    """Join the reports of several configurations into one report."""
    if len(reports) == 1:
        return reports[0]
    findings = tuple(finding for report in reports for finding in report.findings)
    limits = dict.fromkeys(limit for report in reports for limit in report.limits)
    if any(all(limit.kind != "no-root" for limit in report.limits) for report in reports):
        limits = dict.fromkeys(limit for limit in limits if limit.kind != "no-root")
    settings = {name: value for report in reports for name, value in report.environment.settings.items()}
    here = replace(reports[0].environment, settings=settings)
    return replace(reports[0], environment=here, findings=findings, limits=tuple(limits))


def source_over(buffers: Buffers) -> Lines:
    """Return a function that reads the lines of a file, from the editor's unsaved content if there is any."""
    from graphsafe.report.source import file_lines, lines_in

    held = {os.path.abspath(path): lines_in(data) for path, data in buffers.items()}
    return lambda path: held[at] if (at := os.path.abspath(path)) in held else file_lines(path)


def refusal_of(path: Path) -> str | None:
    """Return why a path cannot be scanned, or None if it can."""
    try:
        is_there = path.is_file() or path.is_dir()
    except OSError as error:  # graphsafe may not search the folder, or the name is too long
        return f"{path}: {error.strerror}"
    if not is_there:
        return f"{path}: no such file or folder"
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        return f"{path}: {os.strerror(errno.EACCES)}"
    if path.suffix == ".ipynb":
        return f"{path}: notebooks are not read; scan what `jupyter nbconvert --to script` makes of it"
    if "::" in str(with_real_folder(path)):
        return f"{path}: not read, because `::` would end its path in a report"
    return None
