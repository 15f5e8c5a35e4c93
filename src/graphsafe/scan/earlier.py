"""What earlier scans of a project can still answer: all of it, all but what an edit moved, or what its files define."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from graphsafe.config import Config
from graphsafe.report.model import Confidence, Report
from graphsafe.rulebook import Rulebook
from graphsafe.scan.cache import Cache, digest, index_key, report_key, settings_key
from graphsafe.scan.files import Files
from graphsafe.scan.footprint import Footprint, carried, footprint, footprint_text, parse_footprint
from graphsafe.scan.project import Project
from graphsafe.scan.starts import Entrances, are_few


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
        self._entrances = entrances
        self._contents = contents_of(files) if folder is not None else {}
        self._settings = settings_key(wanted, config, confidence, rulebook)
        self._key = report_key(self._settings, self._contents)
        # What is read for a few files depends on the imports of all the others.
        self._follows_edits = bool(self._contents) and not are_few(wanted, files)
        self._known: frozenset[str] = frozenset()

    def report(self) -> Report | None:
        """The report that a scan would make, but for its time."""
        known = self._cache.report(self._key)
        if known is not None or not self._follows_edits:
            return known
        for text in self._cache.footprints(self._settings):
            found = self._after_edit(text)
            if found is not None:
                if not self._is_unchanged():
                    return None
                report, steps = found
                self._keep_indexes(())
                self._cache.keep_report(self._key, report)
                self._cache.keep_footprint(self._settings, self._key, footprint_text(steps))
                return report
        return None

    def _after_edit(self, text: str) -> tuple[Report, Footprint] | None:
        before = parse_footprint(text)
        report = self._cache.report(before.report) if before is not None else None
        if before is None or report is None:
            return None
        return carried(before, report, self._files, self._contents, self._entrances, self._key)

    def indexes(self) -> frozenset[str]:
        """Give `files` the indexes that are known; the files that need not be read to know that they can be."""
        known, legal = self._cache.indexes(self._index_keys())
        self._known = frozenset(known)
        self._files.indexes.update(known)
        return legal

    def keep(self, report: Report, project: Project, checked: Iterable[str]) -> None:
        """What a scan found. `checked` files were not looked into, only found to be legal or not."""
        if not self._contents or not self._is_unchanged():
            return
        self._keep_indexes(checked)
        if not any(limit.kind == "internal-error" for limit in report.limits):
            self._cache.keep_report(self._key, report)
            if self._follows_edits:
                steps = footprint(self._files, project, self._contents, self._entrances, self._key)
                self._cache.keep_footprint(self._settings, self._key, footprint_text(steps))

    def _keep_indexes(self, checked: Iterable[str]) -> None:
        files = self._files
        keys = self._index_keys()
        made = {path: index for path, index in files.indexes.items() if path in keys and path not in self._known}
        self._cache.keep_indexes(
            {keys[path]: index for path, index in made.items() if index and path not in files.rewritten},
            [keys[path] for path in checked if path in keys and path not in files.indexes],
        )

    def _index_keys(self) -> dict[str, str]:
        names = self._files.names
        return {path: index_key(path, *names[path], content) for path, content in self._contents.items()}

    def _is_unchanged(self) -> bool:
        """Whether nothing was edited meanwhile, so that what was read is what the keys name."""
        return self._contents == contents_of(self._files)


def contents_of(files: Files) -> dict[str, str]:
    """The digest of every file that can be read."""
    found: dict[str, str] = {}
    for path in files.paths:
        with suppress(OSError):
            found[path] = digest(Path(path).read_bytes())
    return found
