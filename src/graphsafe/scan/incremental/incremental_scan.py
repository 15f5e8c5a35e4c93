"""What earlier scans of a project still answer: the whole report, single roots, or what its files define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from graphsafe.config import Config
from graphsafe.report.model import Confidence, Report
from graphsafe.rulebook import Rulebook
from graphsafe.scan.domain.uses import Fact
from graphsafe.scan.incremental.cache import Cache, Snapshot, index_key, report_key, settings_key
from graphsafe.scan.incremental.contents import Contents
from graphsafe.scan.incremental.edited_report import after_edit
from graphsafe.scan.incremental.fact_digests import FactDigests
from graphsafe.scan.incremental.root_readings import RootReadings
from graphsafe.scan.incremental.rows import NO_ROWS, PARTS
from graphsafe.scan.incremental.tables import Facts, parse_facts
from graphsafe.scan.roots.candidate_files import RootPatterns, are_few
from graphsafe.scan.symbols.index import FileIndex
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
        self._read = Contents(files.paths if folder is not None else ())
        self._contents = self._read.digests
        names = files.names
        self._versions = {path: index_key(path, *names[path], content) for path, content in self._contents.items()}
        "Path -> what stands for its content and its name as a module: a package that comes or goes changes names."
        self._settings = settings_key(wanted, config, confidence, rulebook)
        self._key = report_key(self._settings, self._versions)
        # Roots are read alike whichever files are to be reported on.
        self._readings_key = settings_key((), config, confidence, rulebook)
        # What is read for a few files depends on the imports of all the others.
        self._follows_edits = bool(self._contents) and not are_few(wanted, files)
        self._known: set[str] = set()
        self._digests = FactDigests(files, self._contents, root_patterns)
        self._snapshot: Snapshot | None = None
        self._facts = Facts()
        self._changed: list[Fact] = []
        "The facts of the last scan, and those that say something else now."

    def report(self) -> Report | None:
        """The report that a scan would make, but for its time; None where only a scan can tell."""
        known = self._cache.report(self._key)
        if known is not None or not self._follows_edits:
            return known
        snapshot = self._cache.snapshot(self._readings_key)
        if snapshot is not None:
            self._files.recall = self._recall
            try:
                self._facts = parse_facts(self._cache.readings(snapshot, PARTS[0]))
                report = self._after_edit(snapshot)
            except NO_ROWS:
                return None
            self._snapshot = snapshot
            return report
        return None

    def _after_edit(self, snapshot: Snapshot) -> Report | None:
        """The report of the snapshot, if that still holds; else notes what has changed. Raises one of NO_ROWS."""
        before = snapshot.versions

        def index_before(path: str) -> FileIndex | None:
            return self._cache.index(path, before[path])

        edited = [path for path, version in before.items() if self._versions.get(path, version) != version]
        came_or_went = before.keys() ^ self._versions.keys()
        self._changed = [*self._digests.changed(self._facts, edited, came_or_went, index_before)]
        if self._changed or came_or_went:
            return None
        both = {path: (index_before(path), now) for path in edited if (now := self._files.indexed(path)) is not None}
        report = self._cache.report(report_key(self._settings, before))
        if report is None or len(both) < len(edited) or not self._is_unchanged():
            return None
        found = after_edit(report, (fact for fact, *_ in self._facts), both)
        if found is not None:
            self._keep_indexes(())
            self._cache.keep_report(self._key, found)
            self._cache.keep_snapshot(self._readings_key, Snapshot(snapshot.readings, self._versions))
        return found

    def _recall(self, path: str) -> FileIndex | None:
        key = self._versions.get(path)
        found = self._cache.index(path, key) if key is not None else None
        if found is not None:
            self._known.add(path)
        return found

    def indexes(self) -> frozenset[str]:
        """Give `files` the indexes that are known; the files that need not be read to know that they can be."""
        known, legal = self._cache.indexes(self._versions)
        self._known.update(known)
        for path, index in known.items():
            self._files.indexes.setdefault(path, index)
        # Nothing more to look up, for this process or for one that shares the reading.
        self._files.recall = None
        return legal

    def readings(self) -> RootReadings | None:
        """What is known of single roots; None where nothing is kept. To be asked for after the report."""
        if not self._follows_edits:
            return None
        snapshot = self._snapshot
        parts = [self._cache.readings(snapshot, part) for part in PARTS[1:]] if snapshot is not None else ()
        return RootReadings(self._facts, parts, self._changed, self._digests)

    def keep(self, report: Report, checked: Iterable[str], readings: RootReadings | None) -> None:
        """What a scan found and read. `checked` files were not looked into, only found to be legal or not."""
        files = self._files
        if not self._contents or not self._is_unchanged():
            return
        files.forget_trees()
        self._keep_indexes(checked)
        if not any(limit.kind == "internal-error" for limit in report.limits):
            self._cache.keep_report(self._key, report)
            if readings is not None:
                for path in (*files.problems, *files.rewritten):
                    files.uses.note("text", path)
                readings.keep_facts(files.uses.now)
                parts = zip(PARTS, readings.parts(), strict=True)
                self._cache.keep_readings(self._readings_key, self._versions, parts)

    def _keep_indexes(self, checked: Iterable[str]) -> None:
        files = self._files
        keys = self._versions
        made = {path: index for path, index in files.indexes.items() if path in keys and path not in self._known}
        self._cache.keep_indexes(
            {keys[path]: index for path, index in made.items() if index and path not in files.rewritten},
            [keys[path] for path in checked if path in keys and path not in files.indexes],
        )

    def _is_unchanged(self) -> bool:
        """Whether nothing was edited meanwhile, so that what was read is what the keys name."""
        return self._read.hold(self._files.paths)
