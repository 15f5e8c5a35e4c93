"""Measure how many of the snippets that break a capture can be captured after `--fix` alone.

Each snippet of the atlas that could not be captured on a GPU becomes the `forward` of a module. It is fixed and, if the
fix changed it, captured and replayed.

    python benchmarks/scan/atlas_fixes.py                    # on the simulated device
    python benchmarks/scan/atlas_fixes.py --device cuda:0
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from atlas_accuracy import module

from graphsafe import cli
from graphsafe.capture.api import capture_all
from graphsafe.capture.request import CaptureRequest
from graphsafe.config import Config
from graphsafe.report.model import Report

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from op_snippets import GROUPS, Snippet, catalogue, measured, measured_files  # noqa: E402

BUILD = "\n\ndef build(device):\n    return Step(device).to(device), ()\n"


@dataclass(frozen=True, slots=True)
class Row:
    snippet: Snippet
    fixed: str | None
    "The step after --fix, or None if nothing was fixed."
    says: str
    "The result of its capture."
    captured: bool


def failing(group: str) -> Sequence[Snippet]:
    """Return the snippets of a group that run eagerly and whose capture fails."""
    entries = {name: entry for file in measured_files() for name, entry in measured(file)["entries"].items()}
    fails = {name for name, entry in entries.items() if entry.get("capture") == "fails"}
    return [one for one in catalogue().snippets.values() if one.group == group and one.name in fails]


def text_of(step: str) -> str:
    """Return a file with the step as a module. The module has the attributes that the step uses."""
    parts = catalogue()
    made = {**parts.tensors, **parts.host, **parts.objects}
    used: dict[str, str] = {}

    def use(code: str) -> None:
        for name in re.findall(r"\bs\.(\w+)", code):
            if name in made and name not in used:
                use(made[name])
                used[name] = made[name]

    use(step)
    state = "self.dev = dev\n" + "".join(f"self.{name} = {value}\n" for name, value in used.items())
    body = re.sub(r"\bs\.", "self.", re.sub(r"\bdev\b", "self.dev", step))
    return module("self, dev: torch.device", re.sub(r"\bs\.", "self.", state), f"{body}\nreturn out\n") + BUILD


def measure(snippets: Sequence[Snippet], folder: Path, device: str, unsafe: bool) -> list[Row]:
    files = {}
    for number, snippet in enumerate(snippets):
        files[snippet.name] = file = folder / f"row{number:03}.py"
        file.write_text(text_of(snippet.step), encoding="utf-8")
    before = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli.main(["scan", str(folder), "--fix", *["--unsafe-fixes"] * unsafe])
    changed = [one for one in snippets if files[one.name].read_text(encoding="utf-8") != before[one.name]]
    requests = [
        CaptureRequest(f"{files[one.name]}:build", Config(root=folder), devices=(device,), timeout=60)
        for one in changed
    ]
    reports = dict(zip((one.name for one in changed), capture_all(requests), strict=True))
    return [_row(one, files[one.name], reports.get(one.name)) for one in snippets]


def _row(snippet: Snippet, file: Path, report: Report | None) -> Row:
    if report is None:
        return Row(snippet, None, "", False)
    probes = report.devices[0].probes if report.devices else {}
    captured = probes.get("capture", {}).get("status") == "pass"
    checks = probes.get("replay", {}).get("checks") or []
    different = [check["name"] for check in checks if check["result"] == "different"]
    body = file.read_text(encoding="utf-8").partition("def forward(self):\n")[2].partition("\n\ndef build")[0]
    says = f"replays differ: {', '.join(different)}" if different else "" if captured else _why(report, probes)
    return Row(
        snippet, "; ".join(line.strip() for line in body.splitlines() if line.strip()), says, captured and not different
    )


def _why(report: Report, probes: object) -> str:
    return "; ".join([limit.why for limit in report.limits][:1]) or str(report.verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--group", choices=GROUPS, action="append")
    options = parser.parse_args()
    groups = options.group or ["atlas"]
    print("| snippets | fixes | fail to capture | changed by it | capture then |\n|---|---|---|---|---|")
    told = []
    for group in groups:
        snippets = failing(group)
        for name, unsafe in (("--fix", False), ("--fix --unsafe-fixes", True)):
            with tempfile.TemporaryDirectory() as folder:
                rows = measure(snippets, Path(folder).resolve(), options.device, unsafe)
            changed = [row for row in rows if row.fixed is not None]
            good = [row for row in changed if row.captured]
            share = f"{len(good)} ({len(good) / len(rows):.0%})"
            print(f"| {group} | `{name}` | {len(rows)} | {len(changed)} | {share} |", flush=True)
            told += [(name, row) for row in changed]
    print("\n| fixes | snippet | after | capture |\n|---|---|---|---|")
    for name, row in told:
        after = (row.fixed or "").replace("|", "\\|")
        print(f"| `{name}` | {row.snippet.name} | `{after}` | {'yes' if row.captured else row.says} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
