"""Measure how well scan distinguishes snippets that break a capture or its replay from clean snippets.

Each snippet becomes the `forward` of a module in its own file, once for each of WRAPPINGS, and is scanned. A bad
snippet is found if a finding above note has the right family. A clean snippet is silent if it has no finding above note
except GS401.

    python benchmarks/scan/atlas_accuracy.py  # the tables of docs/accuracy/waits.md
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from op_snippets import GROUPS, Snippet, breaks, catalogue, measured, measured_files  # noqa: E402

IMPORTS = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def as_buffers(step: str) -> str:
    """Return the module's code with tensors as buffers, which are moved to the device later. In `forward`, the module
    is called `s`."""
    parts = catalogue()
    buffers = "".join(f'self.register_buffer("{name}", {made})\n' for name, made in parts.tensors.items())
    others = "".join(f"self.{name} = {made}\n" for name, made in {**parts.host, **parts.objects}.items())
    state = re.sub(r"\bs\.", "self.", (buffers + others).replace(", device=dev", ""))
    return module("self", state, f"s = self\ndev = self.x.device\n{step}\nreturn out\n")


def as_attributes(step: str) -> str:
    """Return the module's code with tensors as plain attributes, made on the device that the constructor gets."""
    parts = catalogue()
    made = {**parts.tensors, **parts.host, **parts.objects}
    state = "self.dev = dev\n" + "".join(f"self.{name} = {value}\n" for name, value in made.items())
    step = re.sub(r"\bs\.", "self.", re.sub(r"\bdev\b", "self.dev", step))
    return module("self, dev: torch.device", re.sub(r"\bs\.", "self.", state), f"{step}\nreturn out\n")


def module(parameters: str, state: str, body: str) -> str:
    init = textwrap.indent("super().__init__()\n" + state, " " * 8)
    forward = textwrap.indent(body, " " * 8)
    head = f"{IMPORTS}\n\nclass Step(nn.Module):\n    def __init__({parameters}):\n"
    return f"{head}{init}\n    def forward(self):\n{forward}"


WRAPPINGS = {"buffers": as_buffers, "attributes": as_attributes}


@dataclass(frozen=True, slots=True)
class Row:
    """One snippet of the atlas, and the codes of its findings above note, without GS401 and GS9xx."""

    name: str
    step: str
    expected: tuple[str, ...]
    "The right codes. It is empty for a clean snippet."
    found: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        families = {code[:3] for code in self.expected}
        return any(code[:3] in families for code in self.found) if self.expected else not self.found

    @property
    def is_exact(self) -> bool:
        return any(code in self.expected for code in self.found)


@dataclass(frozen=True, slots=True)
class Accuracy:
    rows: Sequence[Row]

    @property
    def bad(self) -> Sequence[Row]:
        return [row for row in self.rows if row.expected]

    @property
    def clean(self) -> Sequence[Row]:
        return [row for row in self.rows if not row.expected]

    @property
    def recall(self) -> float:
        """The share of bad snippets that have a finding of the right family."""
        return share(row.is_right for row in self.bad)

    @property
    def exact(self) -> float:
        """The share of bad snippets that have a finding with the right code."""
        return share(row.is_exact for row in self.bad)

    @property
    def silence(self) -> float:
        """The share of clean snippets without a finding."""
        return share(row.is_right for row in self.clean)

    @property
    def wrong(self) -> Sequence[Row]:
        return [row for row in self.rows if not row.is_right]


def share(answers: Iterable[bool]) -> float:
    counted = list(answers)
    return sum(counted) / len(counted)


def snippets_of(group: str) -> Sequence[Snippet]:
    """Return the measured snippets of one of GROUPS that run eagerly."""
    entries = {name: entry for file in measured_files() for name, entry in measured(file)["entries"].items()}
    runs = {name for name, entry in entries.items() if breaks(entry) is not None}
    return [one for one in catalogue().snippets.values() if one.group == group and one.name in runs]


def measure(group: str, wrapping: str, folder: Path) -> Accuracy:
    """Write every snippet of one of GROUPS into `folder`, wrapped, and scan them all at once."""
    snippets = snippets_of(group)
    for number, snippet in enumerate(snippets):
        (folder / f"row{number:03}.py").write_text(WRAPPINGS[wrapping](snippet.step), encoding="utf-8")
    report = scan_paths([folder], load_config(folder))
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.level != "note" and finding.code != "GS401" and not finding.code.startswith("GS9"):
            found.setdefault(Path(finding.location.path).stem, []).append(finding.code)
    return Accuracy(
        [
            Row(snippet.name, snippet.step, snippet.codes, tuple(sorted(found.get(f"row{number:03}", ()))))
            for number, snippet in enumerate(snippets)
        ]
    )


def main() -> int:
    print("| snippets | wrapping | bad ones found | with the right code | clean ones silent |")
    print("|---|---|---|---|---|")
    results = {}
    for name in filter(snippets_of, GROUPS):
        for wrapping in WRAPPINGS:
            with tempfile.TemporaryDirectory() as folder:
                result = results[name, wrapping] = measure(name, wrapping, Path(folder))
            print(
                f"| {name} | {wrapping} | {result.recall:.1%} of {len(result.bad)} | {result.exact:.1%} "
                f"| {result.silence:.1%} of {len(result.clean)} |"
            )
    print("\n| snippet | wrapping | | expected | found |\n|---|---|---|---|---|")
    for (_, wrapping), result in results.items():
        for row in result.wrong:
            step = row.step.replace("\n", "; ").replace("|", "\\|")
            expected, found = (", ".join(side) or "nothing" for side in (row.expected, row.found))
            print(f"| {row.name} | {wrapping} | `{step}` | {expected} | {found} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
