"""Folders of programs with labels: what `graphsafe run` has to say of each, and what it did not say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ValidReport

WAITS = ("GS1", "GS2", "GS3")
"Families of findings that `--waits` adds. A sound program may wait, and is told where."


@dataclass(frozen=True)
class Programs:
    """The programs of a folder. A file in it says of each whether it is sound, and else where its faults are."""

    folder: Path
    file: str = "labels.json"

    @property
    def labels(self) -> dict[str, Any]:
        labels: dict[str, Any] = json.loads((self.folder / self.file).read_text(encoding="utf-8"))
        return labels

    def ledgers(self, valid_report: ValidReport, place: Path, *options: str, together: int) -> dict[str, Any]:
        """Run each program by itself and return its ledger. `options` are those of `graphsafe run`."""
        labels = self.labels

        def watched(name: str) -> Any:
            file = place / f"{name.replace('/', '-')}.json"
            words = (*options, *labels[name].get("options", ()), "-o", str(file), "--", sys.executable, name)
            command = [sys.executable, "-m", "graphsafe", "run", *words]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            ran = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
            assert ran.returncode == 0, f"{name}: {ran.stderr[-4000:]}"
            return valid_report(file.read_text(encoding="utf-8"))

        with ThreadPoolExecutor(together) as pool:
            return dict(zip(labels, pool.map(watched, labels), strict=True))

    def accused(self, ledgers: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the findings about sound programs, waits aside where these were asked for."""
        found = {}
        for name, label in self.labels.items():
            told = [one["code"] for one in ledgers[name]["findings"] if one["level"] != "note"]
            found[name] = [code for code in told if not ("options" in label and code.startswith(WAITS))]
            if not label["sound"]:
                found[name] = []
        return {name: codes for name, codes in found.items() if codes}

    def missed(self, ledgers: Mapping[str, Any], kind: str = "hazards") -> tuple[int, list[tuple[str, str, int]]]:
        """Return the number of faults, and those that no finding names with a right code and line."""
        faults = [(name, fault) for name, label in self.labels.items() for fault in label.get(kind, ())]
        left = []
        for name, fault in faults:
            codes = {fault["code"], *fault.get("or_codes", ())}
            lines = {fault["line"], *fault.get("or_at", ())}
            found = {(one["code"], one["location"]["line"]) for one in ledgers[name]["findings"]}
            if not any(code in codes and line in lines for code, line in found):
                left.append((name, fault["code"], fault["line"]))
        return len(faults), left
