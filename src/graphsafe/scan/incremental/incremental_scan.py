"""What earlier scans of a project still answer: the whole report, or what its files define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from graphsafe.config import Config
from graphsafe.report.model import Confidence, Report
from graphsafe.rulebook import Rulebook
from graphsafe.scan.incremental.cache import Cache, index_key, report_key, settings_key
from graphsafe.scan.incremental.contents import Contents
from graphsafe.scan.incremental.dependencies import (
    Dependencies,
    after_edit,
    dependencies,
    dependencies_text,
    parse_dependencies,
    used,
)
from graphsafe.scan.incremental.fact_digests import FactDigests
from graphsafe.scan.incremental.root_readings import RootReadings
from graphsafe.scan.roots.candidate_files import RootPatterns, are_few
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files


class IncrementalScan:
    """`folder` None: there is nothing, and nothing is kept."""

    def __init__(
        self,
        folder: Path | None,
        files: Files,
        wanted: Sequence[str],
        config: Config,
        confidence: Confidence,
        rulebook: Rulebook,
        root_patterns: RootPatterns,
        complain: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._cache = Cache(folder, complain)
        self._files = files
        self._entrances = root_patterns
        self._read = Contents(files.paths if folder is not None else ())
        self._contents = self._read.digests
        self._settings = settings_key(wanted, config, confidence, rulebook)
        self._key = report_key(self._settings, self._contents)
        # Roots are read alike whichever files are to be reported on.
        self._readings_key = settings_key((), config, confidence, rulebook)
        # What is read for a few files depends on the imports of all the others.
        self._follows_edits = bool(self._contents) and not are_few(wanted, files)
        self._known: set[str] = set()
        self._before: Dependencies | None = None
        "What the scan depended on that left the readings."
        names = files.names
        self._index_keys = {path: index_key(path, *names[path], text) for path, text in self._contents.items()}

    def report(self) -> Report | None:
        """The report that a scan would make, but for its time; None where only a scan can tell."""
        known = self._cache.report(self._key)
        if known is not None or not self._follows_edits:
            return known
        self._files.recall = self._recall
        for text in self._cache.dependencies(self._settings):
            before = parse_dependencies(text)
            report = self._cache.report(before.report) if before is not None else None
            if before is None or report is None:
                continue
            found = after_edit(before, report, self._files, self._contents, self._entrances, self._key)
            if found is not None:
                if not self._is_unchanged():
                    return None
                report, after = found
                self._keep_indexes(())
                self._cache.keep_report(self._key, report)
                self._cache.keep_dependencies(self._settings, self._key, dependencies_text(after))
                return report
        return None

    def _recall(self, path: str) -> FileIndex | None:
        key = self._index_keys.get(path)
        found = self._cache.index(path, key) if key is not None else None
        if found is not None:
            self._known.add(path)
        return found

    def indexes(self) -> frozenset[str]:
        """Give `files` the indexes that are known; the files that need not be read to know that they can be."""
        known, legal = self._cache.indexes(self._index_keys)
        self._known.update(known)
        self._files.indexes.update(known)
        # Nothing more to look up, for this process or for one that shares the reading.
        self._files.recall = None
        return legal

    def readings(self) -> RootReadings | None:
        """What is known of single roots; None where nothing is kept. To be asked for when the indexes are known."""
        if not self._follows_edits:
            return None
        before, *parts = self._cache.readings(self._readings_key) or [""]
        self._before = parse_dependencies(before)
        found = RootReadings(parts if self._before is not None else (), FactDigests(self._files, self._contents))
        if found.is_empty:
            self._before = None
        return found

    def keep(self, report: Report, project: Project, checked: Iterable[str], readings: Iterable[str]) -> None:
        """What a scan found and read. `checked` files were not looked into, only found to be legal or not."""
        if not self._contents or not self._is_unchanged():
            return
        self._files.forget_trees()
        self._keep_indexes(checked)
        if not any(limit.kind == "internal-error" for limit in report.limits):
            self._cache.keep_report(self._key, report)
            if self._follows_edits:
                if self._before is not None:
                    # Readings of earlier scans have used it.
                    project.add_used(used(self._before, self._files))
                found = dependencies(self._files, project, self._contents, self._entrances, self._key, self._before)
                text = dependencies_text(found)
                self._cache.keep_dependencies(self._settings, self._key, text)
                self._cache.keep_readings(self._readings_key, chain([text], readings))

    def _keep_indexes(self, checked: Iterable[str]) -> None:
        files = self._files
        keys = self._index_keys
        made = {path: index for path, index in files.indexes.items() if path in keys and path not in self._known}
        self._cache.keep_indexes(
            {keys[path]: index for path, index in made.items() if index and path not in files.rewritten},
            [keys[path] for path in checked if path in keys and path not in files.indexes],
        )

    def _is_unchanged(self) -> bool:
        """Whether nothing was edited meanwhile, so that what was read is what the keys name."""
        return self._read.hold(self._files.paths)
