"""What earlier scans of a project can still answer: all of it, all but what an edit moved, or what its files define."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from graphsafe.config import Config
from graphsafe.report.model import Confidence, Finding, Report
from graphsafe.rulebook import Rulebook
from graphsafe.scan.deep_stack import with_room
from graphsafe.scan.domain.record import Record
from graphsafe.scan.incremental.cache import Cache, index_key, report_key, settings_key
from graphsafe.scan.incremental.contents import Contents
from graphsafe.scan.incremental.footprint import (
    Edit,
    Footprint,
    carried,
    compare,
    footprint,
    footprint_text,
    parse_footprint,
    with_more,
)
from graphsafe.scan.incremental.moves import Move
from graphsafe.scan.incremental.oracle import Unanswered
from graphsafe.scan.incremental.recorder import Recorder
from graphsafe.scan.incremental.rereading import ALL, Kept, Reread, kept_of, reread, retraced
from graphsafe.scan.incremental.trace import Trace
from graphsafe.scan.incremental.value_table import Unwritable
from graphsafe.scan.interpreter.driver import Reader
from graphsafe.scan.linting.lint import Linter
from graphsafe.scan.roots.candidate_files import Entrances, are_few
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project_files import Files


class Earlier:
    """`folder` None: there is nothing, and nothing is kept."""

    def __init__(
        self,
        folder: Path | None,
        files: Files,
        wanted: Sequence[str],
        config: Config,
        confidence: Confidence,
        rulebook: Rulebook,
        entrances: Entrances,
    ) -> None:
        self._cache = Cache(folder)
        self._files = files
        self._wanted = wanted
        self._config = config
        self._confidence = confidence
        self._rulebook = rulebook
        self._entrances = entrances
        self._read = Contents(files.paths if folder is not None else ())
        self._contents = self._read.digests
        self._settings = settings_key(wanted, config, confidence, rulebook)
        self._key = report_key(self._settings, self._contents)
        # What is read for a few files depends on the imports of all the others.
        self.follows_edits = bool(self._contents) and not are_few(wanted, files)
        self._can_reread = True
        "Until that was tried."
        self._known: set[str] = set()
        self._made_keys: Mapping[str, str] | None = None

    def report(self) -> Report | None:
        """The report that a scan would make, but for its time."""
        known = self._cache.report(self._key)
        if known is not None or not self.follows_edits:
            return known
        texts = self._cache.footprints(self._settings)
        self._files.recall = self._recall
        waiting = deque(texts)
        while waiting:
            name = waiting.popleft()
            before = parse_footprint(texts[name])
            found = self._after_edit(before) if before is not None else None
            if found is not None:
                if not self._is_unchanged():
                    return None
                report, steps, again = found
                # What a whole scan left outlives what edits since have left.
                scan = steps.scan or name
                scanned = {scan: texts[scan]} if scan in texts else {}
                self._keep_indexes(())
                if again is not None:
                    self._cache.keep_readings(self._key, [*again.kept.items(), *again.rows.items()])
                self._cache.keep_report(self._key, report)
                self._cache.keep_footprints(self._settings, {**scanned, self._key: footprint_text(steps)})
                return report
            if before is not None and before.scan in waiting:
                # All that others can do, the whole scan can that they come from.
                waiting.remove(before.scan)
                waiting.appendleft(before.scan)
        return None

    def _after_edit(self, before: Footprint) -> tuple[Report, Footprint, Reread | None] | None:
        try:
            edit = compare(before, self._files, self._contents, self._entrances)
        except (ValueError, TypeError, KeyError):  # a damaged cache
            return None
        if edit is None:
            return None
        if edit.has_only_moved:
            report = self._cache.report(before.report)
            found = carried(before, report, edit, self._contents, self._key) if report is not None else None
            if found is not None:
                return *found, None
        return self._read_again(before, edit) if before.record else None

    def _read_again(self, before: Footprint, edit: Edit) -> tuple[Report, Footprint, Reread | None] | None:
        report = self._cache.report_without_findings(before.report)
        if report is None:
            return None
        reader = Reader(self._files, self._config, self._rulebook)
        moves = {path: Move(seen.written, seen.spans) for path, seen in edit.seen.moved().items()}

        def row(ref: str) -> str | None:
            return self._cache.readings(before.rewritten.get(ref, before.scan), [ref]).get(ref)

        def read() -> tuple[Reread | None, list[Finding]]:
            kept = Kept(self._cache.readings(before.record, ALL), row)
            again: Reread | None = None
            try:
                if not self._can_reread:
                    raise Unanswered
                self._can_reread = False
                again = reread(edit, moves, kept, reader.project, reader.engine)
                record = again.record
            except Unanswered:
                if before.record != before.scan:
                    raise

                def rows(refs: Sequence[str]) -> Mapping[str, str]:
                    return self._cache.readings(before.scan, refs)

                trace = Trace(kept.course, rows, kept.table, kept.record)
                record = retraced(edit, moves, trace, reader.project, reader.engine, self._config)
            for path in before.unreadable:
                self._files.index(path)
            linter = Linter(reader.project, record, self._rulebook, self._config, self._confidence)
            return again, linter.findings(self._wanted, before.judged)

        try:
            again, findings = with_room(read)
        except Exception:
            # Whatever this was, a scan has the last word.
            return None
        after = replace(before, report=self._key, contents=self._contents)
        if again is not None:
            seen = edit.seen.but({path: replace(seen, written={}) for path, seen in edit.seen.moved().items()})
            rewritten = {**before.rewritten, **dict.fromkeys(again.rows, self._key)}
            after = replace(after, seen=seen, record=self._key, rewritten=rewritten)
        else:
            # The next edit of hot code is compared with the whole scan before again.
            after = replace(after, seen=edit.seen, record="")
        after = with_more(after, self._files, reader.project, self._entrances)
        return replace(report, findings=tuple(findings)), after, again

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
        return legal

    def keep(self, report: Report, reader: Reader, checked: Iterable[str]) -> None:
        """What a scan found. `checked` files were not looked into, only found to be legal or not."""
        if not self._contents or not self._is_unchanged():
            return
        self._files.forget_trees()
        self._keep_indexes(checked)
        if not any(limit.kind == "internal-error" for limit in report.limits):
            self._cache.keep_report(self._key, report)
            if self.follows_edits:
                steps = footprint(self._files, reader.project, self._contents, self._entrances, self._key)
                if reader.recorder is not None and self._keep_readings(reader.record, reader.recorder):
                    steps = replace(steps, scan=self._key, record=self._key)
                self._cache.keep_footprints(self._settings, {self._key: footprint_text(steps)})

    def _keep_readings(self, record: Record, recorder: Recorder) -> bool:
        whole = kept_of(record, recorder.table, recorder.circumstances(), recorder.course())
        try:
            self._cache.keep_readings(self._key, chain(recorder.rows(), recorder.passages(), whole))
        except Unwritable:
            return False
        return True

    def _keep_indexes(self, checked: Iterable[str]) -> None:
        files = self._files
        keys = self._index_keys
        made = {path: index for path, index in files.indexes.items() if path in keys and path not in self._known}
        self._cache.keep_indexes(
            {keys[path]: index for path, index in made.items() if index and path not in files.rewritten},
            [keys[path] for path in checked if path in keys and path not in files.indexes],
        )

    @property
    def _index_keys(self) -> Mapping[str, str]:
        # Not a cached_property, which machine code works out each time (mypyc 1.x).
        if self._made_keys is None:
            names = self._files.names
            self._made_keys = {path: index_key(path, *names[path], text) for path, text in self._contents.items()}
        return self._made_keys

    def _is_unchanged(self) -> bool:
        """Whether nothing was edited meanwhile, so that what was read is what the keys name."""
        return self._read.hold(self._files.paths)
